// test_threads.c: the thread team.
#include <criterion/criterion.h>
#include <fenv.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "tensor/context.h"

static const int COUNTS[] = {1, 2, 3, 7};

enum { MOST_TASKS = 1000 };
typedef struct runs {
    atomic_int of[MOST_TASKS + 1];
} runs;

static void count_run(void *arg, int64_t task) { atomic_fetch_add(&((runs *)arg)->of[task], 1); }

static void check_tasks(hst_context *ctx, int64_t tasks) {
    static runs r;
    memset(&r, 0, sizeof r);
    hst_parallel(ctx, tasks, count_run, &r);
    for (int64_t i = 0; i <= MOST_TASKS; i++)
        cr_assert_eq(atomic_load(&r.of[i]), i < tasks, "%d threads, %lld tasks: task %lld ran %d times",
                     hst_thread_count(ctx), (long long)tasks, (long long)i, atomic_load(&r.of[i]));
}

// Thousands of small jobs, most of them shorter than waking a thread, and a few long ones.
Test(tensor, every_task_runs_exactly_once, .timeout = 60) {
    for (int i = 0; i < 4; i++) {
        hst_context *ctx = hst_open(&(hst_options){.size = sizeof(hst_options), .threads = COUNTS[i]});
        cr_assert_eq(hst_thread_count(ctx), COUNTS[i]);
        for (int64_t job = 0; job < 2000; job++) check_tasks(ctx, job % 23);
        check_tasks(ctx, MOST_TASKS);
        hst_close(ctx);
    }
}

// A program that pauses between its kernels: the workers have gone to sleep and must wake up.
Test(tensor, sleeping_workers_wake_up, .timeout = 60) {
    hst_context *ctx = hst_open(&(hst_options){.size = sizeof(hst_options), .threads = 3});
    for (int job = 0; job < 20; job++) {
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
        check_tasks(ctx, 50);
    }
    hst_close(ctx);
}

Test(tensor, teams_open_and_close, .timeout = 60) {
    for (int i = 0; i < 200; i++) {
        hst_context *ctx = hst_open(&(hst_options){.size = sizeof(hst_options), .threads = 1 + i % 4});
        if (i % 3) check_tasks(ctx, 5);
        hst_close(ctx);
    }
}

// As many tasks as threads, none of which ends before all have begun: so each thread has one.
typedef struct meeting {
    atomic_int here;
    int threads;
    int rounding[8];
} meeting;

static void meet(void *arg, int64_t task) {
    meeting *m = arg;
    atomic_fetch_add(&m->here, 1);
    while (atomic_load(&m->here) < m->threads) sched_yield();
    m->rounding[task] = fegetround();
}

Test(tensor, workers_adopt_the_rounding_mode, .timeout = 60) {
    static const int modes[] = {FE_UPWARD, FE_TONEAREST, FE_TOWARDZERO};
    for (int i = 0; i < 4; i++) {
        hst_context *ctx = hst_open(&(hst_options){.size = sizeof(hst_options), .threads = COUNTS[i]});
        for (int k = 0; k < 3; k++) {
            meeting m = {.threads = COUNTS[i]};
            fesetround(modes[k]);
            hst_parallel(ctx, COUNTS[i], meet, &m);
            fesetround(FE_TONEAREST);
            for (int t = 0; t < COUNTS[i]; t++) cr_assert_eq(m.rounding[t], modes[k], "thread of task %d", t);
        }
        hst_close(ctx);
    }
}

Test(tensor, default_threads_respect_affinity) {
    cpu_set_t all, one;
    cr_assert_eq(sched_getaffinity(0, sizeof all, &all), 0);
    int first = 0;
    while (!CPU_ISSET(first, &all)) first++;
    cr_assert(hst_threads_default() >= 1 && hst_threads_default() <= CPU_COUNT(&all));
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    cr_assert_eq(sched_setaffinity(0, sizeof one, &one), 0);
    cr_assert_eq(hst_threads_default(), 1);
    hst_context *ctx = hst_open(NULL);
    cr_assert_eq(hst_thread_count(ctx), 1);
    hst_close(ctx);
    sched_setaffinity(0, sizeof all, &all);
}
