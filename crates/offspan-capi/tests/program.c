/* Uses all of offspan.h, for the test `c_program.rs`: checks what C can check, and prints scores for Rust to compare.
 *
 * program DETECTOR ROWS WIDTH CLASSES < numbers
 *
 * stdin: ROWS × WIDTH floats, then ROWS × CLASSES floats, as they lie in memory.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "offspan.h"

#define CHECK(condition)                                                                             \
    do {                                                                                             \
        if (!(condition)) {                                                                          \
            fprintf(stderr, "line %d: %s; last error: %s\n", __LINE__, #condition, offspan_last_error()); \
            exit(1);                                                                                 \
        }                                                                                            \
    } while (0)

struct task {
    const offspan_detector *detector;
    const float *features, *logits;
    size_t rows, width, classes;
    double *scores;
};

static void *score(void *given)
{
    struct task *task = given;
    /* This thread has seen no failure, whatever the other one has. */
    CHECK(strcmp(offspan_last_error(), "") == 0);
    CHECK(offspan_score_f32(task->detector, task->features, task->rows, task->width, task->logits, task->classes,
                            task->scores) == OFFSPAN_OK);
    return NULL;
}

static void *reserve(size_t count, size_t size)
{
    void *memory = malloc(count ? count * size : 1);
    CHECK(memory != NULL);
    return memory;
}

static void mistakes(const offspan_detector *detector, const float *features, const float *logits, size_t rows,
                     size_t width, size_t classes, double *scores)
{
    CHECK(offspan_load(NULL) == NULL);
    CHECK(strstr(offspan_last_error(), "path: expected a pointer, got NULL"));
    CHECK(offspan_load("there/is/no/such.offspan") == NULL);
    CHECK(strstr(offspan_last_error(), "no/such.offspan"));
    CHECK(offspan_load_bytes((const uint8_t *)"no detector", 11) == NULL);
    CHECK(strlen(offspan_last_error()) > 0);
    CHECK(offspan_load_bytes((const uint8_t *)"", SIZE_MAX) == NULL);
    offspan_free(NULL);
    CHECK(offspan_width(NULL) == 0);
    CHECK(offspan_needs_logits(NULL) == -1);
    CHECK(offspan_method(NULL) == NULL);
    CHECK(offspan_threshold(detector, NULL) == OFFSPAN_INVALID_ARGUMENT);
    CHECK(offspan_score_f32(NULL, features, rows, width, logits, classes, scores) == OFFSPAN_INVALID_ARGUMENT);
    CHECK(offspan_score_f32(detector, NULL, rows, width, logits, classes, scores) == OFFSPAN_INVALID_ARGUMENT);
    CHECK(strstr(offspan_last_error(), "features: expected a pointer, got NULL"));
    CHECK(offspan_score_f32(detector, features, rows, width, logits, classes, NULL) == OFFSPAN_INVALID_ARGUMENT);
    CHECK(offspan_score_f32(detector, features, SIZE_MAX, width, logits, classes, scores) == OFFSPAN_INVALID_ARGUMENT);
    CHECK(strstr(offspan_last_error(), "more than memory can hold"));
    CHECK(offspan_score_f32(detector, features, rows, 0, logits, classes, scores) == OFFSPAN_INVALID_ARGUMENT);
    CHECK(offspan_score_f32(detector, (const float *)((const char *)features + 1), rows - 1, width, logits, classes,
                            scores) == OFFSPAN_INVALID_ARGUMENT);
    CHECK(strstr(offspan_last_error(), "aligned to 4 bytes"));
    CHECK(offspan_score_f32(detector, features, rows, width, NULL, 3, scores) == OFFSPAN_INVALID_ARGUMENT);
    /* Data that do not fit leave the results alone. */
    scores[0] = 77.0;
    CHECK(offspan_score_f32(detector, features, rows, width - 1, logits, classes, scores) == OFFSPAN_FAILED);
    CHECK(strstr(offspan_last_error(), "columns"));
    CHECK(offspan_decide_f32(detector, features, rows, width - 1, logits, classes, scores, NULL, NULL) ==
          OFFSPAN_FAILED);
    CHECK(scores[0] == 77.0);
    if (offspan_needs_logits(detector)) {
        CHECK(offspan_score_f32(detector, features, rows, width, NULL, 0, scores) == OFFSPAN_FAILED);
        CHECK(strstr(offspan_last_error(), "needs logits"));
    }
    /* No rows, no pointers. */
    CHECK(offspan_score_f32(detector, NULL, 0, width, logits, classes, NULL) == OFFSPAN_OK);
    CHECK(offspan_decide_f32(detector, features, rows, width, logits, classes, NULL, NULL, NULL) == OFFSPAN_OK);
}

int main(int argc, char **argv)
{
    CHECK(argc == 5);
    size_t rows = strtoul(argv[2], NULL, 10), width = strtoul(argv[3], NULL, 10), classes = strtoul(argv[4], NULL, 10);
    float *features = reserve(rows * width, sizeof *features), *logits = reserve(rows * classes, sizeof *logits);
    CHECK(fread(features, sizeof *features, rows * width, stdin) == rows * width);
    CHECK(fread(logits, sizeof *logits, rows * classes, stdin) == rows * classes);
    double *scores = reserve(rows, sizeof *scores), *others = reserve(rows, sizeof *others);
    double *p_values = reserve(rows, sizeof *p_values);
    uint8_t *is_ood = reserve(rows, sizeof *is_ood);

    offspan_detector *detector = offspan_load(argv[1]);
    CHECK(detector != NULL);
    CHECK(offspan_width(detector) == width);
    double threshold = 0.0;
    CHECK(offspan_threshold(detector, &threshold) == OFFSPAN_OK);
    printf("%s %s %d %.17g\n", offspan_version(), offspan_method(detector), offspan_needs_logits(detector), threshold);
    const float *given = classes ? logits : NULL;
    mistakes(detector, features, given, rows, width, classes, scores);

    CHECK(offspan_decide_f32(detector, features, rows, width, given, classes, scores, p_values, is_ood) == OFFSPAN_OK);
    /* Two threads on one detector. */
    struct task task = {detector, features, given, rows, width, classes, others};
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, score, &task) == 0);
    double *mine = reserve(rows, sizeof *mine);
    CHECK(offspan_score_f32(detector, features, rows, width, given, classes, mine) == OFFSPAN_OK);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(memcmp(scores, others, rows * sizeof *scores) == 0);
    CHECK(memcmp(scores, mine, rows * sizeof *scores) == 0);

    /* The same numbers as doubles have the same scores. */
    double *wide = reserve(rows * width, sizeof *wide), *wide_logits = reserve(rows * classes, sizeof *wide_logits);
    for (size_t i = 0; i < rows * width; i++)
        wide[i] = features[i];
    for (size_t i = 0; i < rows * classes; i++)
        wide_logits[i] = logits[i];
    uint8_t *again = reserve(rows, sizeof *again);
    const double *wide_given = classes ? wide_logits : NULL;
    CHECK(offspan_score_f64(detector, wide, rows, width, wide_given, classes, mine) == OFFSPAN_OK);
    CHECK(memcmp(scores, mine, rows * sizeof *scores) == 0);
    CHECK(offspan_decide_f64(detector, wide, rows, width, wide_given, classes, NULL, NULL, again) == OFFSPAN_OK);
    CHECK(memcmp(is_ood, again, rows) == 0);

    for (size_t row = 0; row < rows; row++)
        printf("%.17g %.17g %" PRIu8 "\n", scores[row], p_values[row], is_ood[row]);
    offspan_free(detector);
    free(features), free(logits), free(scores), free(others), free(p_values), free(is_ood), free(mine);
    free(wide), free(wide_logits), free(again);
    return 0;
}
