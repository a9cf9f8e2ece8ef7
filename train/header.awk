# header.awk: prints train/halfstep.h with every header of ours in place of its first #include. Installed as one file it
# brings no folders along whose names ("data", "train") a program may have too, and needs no search path of its own.
function put(file, line, part) {
    if (file in seen) return
    seen[file]
    while ((getline line < file) > 0)
        if (line ~ /^#include "/) {
            split(line, part, "\"")
            put(part[2])
        } else
            print line
    close(file)
}
BEGIN { put("train/halfstep.h") }
