// png.h: a picture as a PNG file. The encoder is stb_image_write.h (Debian: libstb-dev), compiled in where the compiler
// finds it; without it everything else works.
#ifndef CLI_PNG_H
#define CLI_PNG_H

#include "train/cli/canvas.h"

extern const bool cli_has_png;
#define CLI_NO_PNG "this halfstep cannot write pictures: it was built without stb_image_write.h (Debian: libstb-dev)"

// Writes the file whole or not at all: under another name first. A device or a pipe is written to as it is. false:
// errno says why.
bool canvas_write_png(const canvas *c, const char *path);

#endif
