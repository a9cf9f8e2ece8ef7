// nearest.c: the "did you mean" of unknown names.
#include "train/cli/options.h"

#include <string.h>

enum { MAX_NAME = 32 };

static int smallest(int a, int b, int c) { return a < b ? (a < c ? a : c) : (b < c ? b : c); }

// Edits from a to b: insert, delete, replace, or swap two neighbours (optimal string alignment). d[i][j] is the
// distance of the first i letters of a from the first j of b.
static int distance(const char *a, const char *b) {
    int d[MAX_NAME + 1][MAX_NAME + 1];
    int m = (int)strlen(a), n = (int)strlen(b);
    for (int i = 0; i <= m; i++) d[i][0] = i;
    for (int j = 0; j <= n; j++) d[0][j] = j;
    for (int i = 1; i <= m; i++)
        for (int j = 1; j <= n; j++) {
            int replace = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
            d[i][j] = smallest(d[i - 1][j] + 1, d[i][j - 1] + 1, replace);
            bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            if (swapped && d[i - 2][j - 2] + 1 < d[i][j]) d[i][j] = d[i - 2][j - 2] + 1;
        }
    return d[m][n];
}

// "temp" for "temperature", "evaluate" for "eval"
static bool begins(const char *text, const char *start) {
    return strlen(start) > 2 && strncmp(text, start, strlen(start)) == 0;
}

const char *cli_nearest(const char *text, const char *const *names) {
    if (strlen(text) > MAX_NAME) return NULL;
    const char *best = NULL;
    int least = (int)strlen(text) / 3 + 2; // further away than this is another word
    for (; *names; names++) {
        if (strlen(*names) > MAX_NAME) continue;
        int edits = begins(*names, text) || begins(text, *names) ? 1 : distance(text, *names);
        if (edits < least) {
            least = edits;
            best = *names;
        }
    }
    return best;
}
