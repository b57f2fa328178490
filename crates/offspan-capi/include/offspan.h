/* offspan: out-of-distribution detection. Higher scores are more in-distribution.
 *
 * This file is written by a test (crates/offspan-capi/tests/header.rs) from the Rust sources: change those.
 *
 * Every function may be called from any number of threads at once, on the same detector, too; only offspan_free must be
 * the last call that gets a detector. A detector does not change. Scoring uses a pool of threads that all calls share
 * (RAYON_NUM_THREADS sets how many). After a fork, the child may score only if nothing was scored before it.
 * No Rust panic leaves a function: a fault of the library is OFFSPAN_INTERNAL, with a message as for other failures.
 */

#ifndef OFFSPAN_H
#define OFFSPAN_H

#include <stddef.h>
#include <stdint.h>

// What a call came to.
typedef enum {
    // Done.
    OFFSPAN_OK = 0,
    // A pointer is NULL or not aligned, or sizes cannot be.
    OFFSPAN_INVALID_ARGUMENT = 1,
    // The data do not fit the detector, or it lacks what was asked for.
    OFFSPAN_FAILED = 2,
    // A fault of the library. Please report it with the message.
    OFFSPAN_INTERNAL = 3,
} offspan_status;

// A fitted detector. It does not change, so any number of threads may use it at once.
typedef struct offspan_detector offspan_detector;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// The message of the last call that failed in this thread, UTF-8; empty if none did. It is valid until the next call
// in this thread fails, or the thread ends.
const char *offspan_last_error(void);

// The version of the library, such as "0.1.0".
const char *offspan_version(void);

// Load a detector file. NULL if that fails; offspan_last_error tells why.
//
// # Safety
// `path` is NULL or a text that ends with NUL (UTF-8 on Windows).
offspan_detector *offspan_load(const char *path);

// Make a detector of the bytes of a detector file, which may go afterwards. NULL if that fails; offspan_last_error
// tells why.
//
// # Safety
// `bytes` is NULL or points to `size` bytes.
offspan_detector *offspan_load_bytes(const uint8_t *bytes,
                                     size_t size);

// Give a detector back. NULL is fine; a detector that was given back already is not.
//
// # Safety
// `detector` is NULL or came from a load, and no other call uses it, now or later.
void offspan_free(offspan_detector *detector);

// The width of the features. 0 if `detector` is NULL.
//
// # Safety
// `detector` is NULL or came from a load and was not freed.
size_t offspan_width(const offspan_detector *detector);

// Whether rows must bring logits: 1 or 0. -1 if `detector` is NULL.
//
// # Safety
// `detector` is NULL or came from a load and was not freed.
int offspan_needs_logits(const offspan_detector *detector);

// The method's name, such as "auto"; valid until the detector is freed. NULL if `detector` is NULL.
//
// # Safety
// `detector` is NULL or came from a load and was not freed.
const char *offspan_method(const offspan_detector *detector);

// The threshold: scores at or above it are in-distribution. OFFSPAN_FAILED if the detector has none.
//
// # Safety
// `detector` is NULL or came from a load and was not freed; `threshold` is NULL or can be written to.
offspan_status offspan_threshold(const offspan_detector *detector, double *threshold);

// Score rows of float: one score per row, higher is more in-distribution.
//
// `features` are `rows` × `width` numbers, row after row; `width` must be offspan_width. `logits` are `rows` × `classes`
// numbers, or NULL with `classes` 0 where offspan_needs_logits says 0. `scores` gets `rows` numbers; where the call
// fails, nothing is written.
//
// # Safety
// `detector` is NULL or came from a load and was not freed. Other pointers are NULL or have as many numbers as said.
offspan_status offspan_score_f32(const offspan_detector *detector,
                                 const float *features,
                                 size_t rows,
                                 size_t width,
                                 const float *logits,
                                 size_t classes,
                                 double *scores);

// Score rows of double. See offspan_score_f32.
//
// # Safety
// As for offspan_score_f32.
offspan_status offspan_score_f64(const offspan_detector *detector,
                                 const double *features,
                                 size_t rows,
                                 size_t width,
                                 const double *logits,
                                 size_t classes,
                                 double *scores);

// Score rows of float and decide on each by the threshold.
//
// `scores`, `p_values` (how probable a score as low is for an in-distribution row) and `is_ood` (1 where the row is
// taken for out-of-distribution, else 0) get `rows` entries each; any of them may be NULL. Rows are given as for
// offspan_score_f32. OFFSPAN_FAILED if the detector has no threshold.
//
// # Safety
// As for offspan_score_f32.
offspan_status offspan_decide_f32(const offspan_detector *detector,
                                  const float *features,
                                  size_t rows,
                                  size_t width,
                                  const float *logits,
                                  size_t classes,
                                  double *scores,
                                  double *p_values,
                                  uint8_t *is_ood);

// Score rows of double and decide on each by the threshold. See offspan_decide_f32.
//
// # Safety
// As for offspan_score_f32.
offspan_status offspan_decide_f64(const offspan_detector *detector,
                                  const double *features,
                                  size_t rows,
                                  size_t width,
                                  const double *logits,
                                  size_t classes,
                                  double *scores,
                                  double *p_values,
                                  uint8_t *is_ood);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* OFFSPAN_H */
