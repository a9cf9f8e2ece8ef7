// child.h: runs the command as a child process, in a scratch folder of its own, and keeps what it wrote.
//
//     child c = RUN("eval", "book.run", "book.txt");   // in the scratch folder
//     cr_assert_eq(c.code, 0, "%s", c.err);
#ifndef CHILD_H
#define CHILD_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

typedef struct child {
    pid_t pid;
    int code;        // exit code, or 128 + the signal that killed it
    char *out, *err; // what it wrote, with a NUL behind it
    size_t out_size, err_size;
} child;

#define RUN(...) child_run(NULL, NULL, (const char *[]){__VA_ARGS__, NULL})

// `input` (or NULL: nothing) becomes standard input; `setup` (or NULL) is called in the child before the command
// starts.
child child_run(const char *input, void (*setup)(void), const char *const *arguments);

// The same with a terminal of 60 columns as standard error; what is shown there goes to shown[size].
child child_on_terminal(const char *const *arguments, char *shown, size_t size);

const char *child_binary(void); // the command's path

// The same in two halves, for a child that something is to happen to.
child child_start(const char *input, void (*setup)(void), const char *const *arguments);
void child_finish(child *c);

// A fresh folder becomes the current one; leaving deletes it. For a suite's init and fini.
void scratch_enter(void);
void scratch_leave(void);

void write_file(const char *path, const void *bytes, size_t count);
void write_text(const char *path, size_t count);  // `count` bytes of made-up English
char *read_file(const char *path, size_t *count); // with a NUL behind it, until scratch_leave; NULL: there is none

// Whether `text` is lines of flat JSON objects; a key's value on the first line with the given event, as text, or NULL.
bool is_json_lines(const char *text);
const char *json_value(const char *lines, const char *event, const char *key);

// A run of five steps of a very small model on text.txt, into text.run; and whether a model file is one of it.
#define TINY "--layers", "1", "--hidden", "16", "--batch", "2", "--length", "8"
child train_tiny(void);
void expect_loadable(const char *model);

#endif
