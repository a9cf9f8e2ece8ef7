// instructions.c PRECISION: two steps of training of a small model, for instructions.sh to count.
#include <halfstep.h>
#include <stdio.h>

int main(int count, char **arguments) {
    hst_train_options o;
    hst_train_defaults(&o, sizeof o);
    if (count != 2 || !hst_precision_find(arguments[1], &o.precision)) return 2;
    hst_context *ctx = hst_open(&(hst_options){.size = sizeof(hst_options), .threads = 1, .isa = "avx2"});
    hst_corpus *text = hst_corpus_new(ctx);
    for (int i = 0; i < 2000; i++) {
        char line[16];
        hst_corpus_add_bytes(text, line, (size_t)snprintf(line, sizeof line, "%d\n", i));
    }
    o.layers = 2, o.hidden = 128, o.batch = 8, o.length = 64, o.dropout = 0.1; // more symbols than the table has rows
    o.steps = 1000;
    hst_trainer *trainer = hst_trainer_new(ctx, &o, text, NULL);
    for (int i = 0; i < 2; i++) hst_trainer_step(trainer, NULL);
    hst_status status = hst_get_status(ctx);
    if (status != HST_OK) fprintf(stderr, "%s\n", hst_error(ctx));
    hst_close(ctx);
    return status != HST_OK;
}
