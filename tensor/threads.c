// threads.c: a team of pthreads, created once. A job is a number of tasks; each thread takes the next one from a
// counter, so which thread runs which is open, and kernels give every task its own outputs.
#include <fenv.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include "tensor/context.h"

// A worker looks for the next job this often before it sleeps: waking it costs far more than the gap between kernels.
enum { SPINS = 4000, MAX_THREADS = 256 };

struct hst_threads {
    hst_pool *pool; // where this struct comes from
    int count;      // workers + the caller
    pthread_t workers[MAX_THREADS];
    pthread_mutex_t mutex;
    pthread_cond_t wake;
    atomic_uint job; // changes with each job
    atomic_bool ending;
    int sleeping;

    // the job
    void (*body)(void *arg, int64_t task);
    void *arg;
    int64_t tasks;
    fenv_t environment; // the caller's rounding mode and flushing: workers adopt it
    atomic_llong next;
    atomic_int running; // workers that have not finished it
};

static void take_tasks(hst_threads *team) {
    for (int64_t task; (task = atomic_fetch_add(&team->next, 1)) < team->tasks;) team->body(team->arg, task);
}

static inline void relax(void) {
#if defined __x86_64__
    __builtin_ia32_pause();
#endif
}

static void await_job(hst_threads *team, unsigned seen) {
    for (int i = 0; i < SPINS; i++) {
        if (atomic_load(&team->job) != seen) return;
        relax();
    }
    pthread_mutex_lock(&team->mutex);
    team->sleeping++;
    while (atomic_load(&team->job) == seen) pthread_cond_wait(&team->wake, &team->mutex);
    team->sleeping--;
    pthread_mutex_unlock(&team->mutex);
}

static void *worker(void *arg) {
    hst_threads *team = arg;
    for (unsigned seen = 0;; seen++) {
        await_job(team, seen);
        if (atomic_load(&team->ending)) return NULL;
        fesetenv(&team->environment);
        take_tasks(team);
        atomic_fetch_sub(&team->running, 1);
    }
}

static void announce(hst_threads *team) {
    pthread_mutex_lock(&team->mutex);
    atomic_fetch_add(&team->job, 1);
    if (team->sleeping) pthread_cond_broadcast(&team->wake);
    pthread_mutex_unlock(&team->mutex);
}

void hst_threads_run(hst_threads *team, int64_t tasks, void (*body)(void *arg, int64_t task), void *arg) {
    if (team->count == 1 || tasks <= 1) {
        for (int64_t task = 0; task < tasks; task++) body(arg, task);
        return;
    }
    team->body = body;
    team->arg = arg;
    team->tasks = tasks;
    fegetenv(&team->environment);
    atomic_store(&team->next, 0);
    atomic_store(&team->running, team->count - 1);
    announce(team);
    take_tasks(team);
    for (int spins = 0; atomic_load(&team->running) > 0; spins++) {
        if (spins < SPINS)
            relax();
        else
            sched_yield(); // more threads than processors: let the last one finish
    }
}

void hst_threads_close(hst_threads *team) {
    if (!team) return;
    atomic_store(&team->ending, true);
    announce(team);
    for (int i = 1; i < team->count; i++) pthread_join(team->workers[i], NULL);
    pthread_cond_destroy(&team->wake);
    pthread_mutex_destroy(&team->mutex);
    hst_pool_free(team->pool, team);
}

hst_threads *hst_threads_open(hst_pool *pool, int count) {
    hst_threads *team = hst_pool_allocate(pool, sizeof *team, HST_WORKSPACE);
    if (!team) return NULL;
    memset(team, 0, sizeof *team);
    team->pool = pool;
    pthread_mutex_init(&team->mutex, NULL);
    pthread_cond_init(&team->wake, NULL);
    if (count > MAX_THREADS) count = MAX_THREADS;
    for (team->count = 1; team->count < count; team->count++)
        if (pthread_create(&team->workers[team->count], NULL, worker, team)) {
            hst_threads_close(team);
            return NULL;
        }
    return team;
}

int hst_threads_count(const hst_threads *team) { return team->count; }

// Processors that a cgroup's quota allows, rounded up; 0 where there is no quota.
static int quota(void) {
    long long allowed = 0, period = 0;
    FILE *file = fopen("/sys/fs/cgroup/cpu.max", "r");
    if (!file) return 0;
    int fields = fscanf(file, "%lld %lld", &allowed, &period); // "max 100000": no number, no quota
    fclose(file);
    return fields == 2 && period > 0 ? (int)((allowed + period - 1) / period) : 0;
}

int hst_threads_default(void) {
    int count = 1, limit = quota();
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) count = CPU_COUNT(&set);
    if (limit > 0 && limit < count) count = limit;
    return count < 1 ? 1 : count > MAX_THREADS ? MAX_THREADS : count;
}
