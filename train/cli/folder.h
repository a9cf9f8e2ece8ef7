// folder.h: the run folder: its name, and whether a run can end well in it.
#ifndef CLI_FOLDER_H
#define CLI_FOLDER_H

#include "train/cli/cli.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

extern const cli_term cli_run_files[]; // their names, and what they are

// "dir/book.txt" -> "book.run" in the current folder; "-" -> "stdin.run". Into buffer[size]; returns buffer.
const char *cli_default_folder(const char *text, char *buffer, size_t size);

// Whether a run's files are in `folder`.
bool cli_folder_in_use(const char *folder);

// Makes the folder where it is missing and writes and deletes a probe file. false after printing what is wrong.
bool cli_prepare_folder(const char *folder);

// The same without making or writing anything: whether it is there, or its parent is, and may be written to.
bool cli_folder_can_be_used(const char *folder);

// Keeps other runs out of the folder for as long as this process lives. false after printing that another one is in it.
bool cli_lock_folder(const char *folder);

// Whether `bytes` more fit on the folder's disk. false after printing how many do.
bool cli_folder_has_room(const char *folder, int64_t bytes);

// Deletes the files of an earlier run, so that none is taken for one of the new run; or only the unfinished ones, left
// by a process that was killed while it wrote. false after printing what is in the way.
bool cli_clear_folder(const char *folder, bool unfinished);

#endif
