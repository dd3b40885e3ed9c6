// past.h - the contents of a run's folder, for `ganrun report` and `ganrun diff`.
#ifndef GAN_PAST_H
#define GAN_PAST_H

#include "checkpoint.h"

typedef struct Trail { // one logged number, step by step
    Str name;
    bool report;
    bool of_weight; // of a single weight: left out where runs are compared
    double *value;  // [steps], NaN where it was not logged
} Trail;

typedef struct PastPart { // a part of the time
    Str name;
    double fraction; // while the log is read: added up over the steps that were timed
} PastPart;

typedef struct PastSave {
    uint32_t step;
    double swd;
} PastSave;

typedef struct Score { // a value of `ganrun eval`: a line of scores.jsonl
    Str name;          // metric and set-up (sets_name): values of equal names may be compared
    uint32_t step;
    uint64_t seed;
    Str content; // hash of the files that the name has by base name; empty: none, or unknown
    double generated, real; // of generated samples, and of other samples of the data; NaN: unknown
} Score;

typedef struct Past {
    Str dir;
    Job job;
    uint32_t steps; // logged
    VEC(Trail) trail;
    double *ms, *data_ms;       // [steps]
    double swd_first, swd_last; // NaN: none
    double save_ms;             // of all saves but the one before the first step
    VEC(PastPart) part;         // data first, eval last; they add up to 1
    Str health;                 // at the last save, empty: none
    CheckpointSteps saved;      // steps of the existing checkpoints
    VEC(PastSave) save;         // saves with a distance of samples from data
    VEC(Score) score;           // of `ganrun eval`, and of --metric during training
    uint32_t best;              // best step by --metric, 0: none
    double best_value;
    Str best_of; // the name of that value
} Past;

// Reads options.json, log.jsonl, scores.jsonl and the names in ckpt/. GAN_ERR_INPUT if `dir` is not
// the folder of a run. An incomplete last line of a log is skipped.
GanStatus past_open(Arena *perm, Str dir, Past *out);
// Scores of one name against other data of the same file name get names that tell them apart.
void past_part_scores(Arena *perm, Past *p, uint32_t n);
const Trail *past_trail(const Past *p, Str name, bool report); // NULL: not logged
// The options of a run as names and values: the same names in the same order for all runs, except
// for
// "-s KEY".
typedef VEC(Setting) Words;
Words past_words(Arena *a, const Job *j);
// The save with the smallest distance from the data among those whose checkpoint still exists;
// NULL: none has a distance.
const PastSave *past_best(const Past *p);

// Of x [n], ignoring NaN, which stands for steps without a value; NaN if all are.
double past_last(const double *x, uint32_t n);
double past_late(const double *x, uint32_t n); // mean of the last tenth
double past_median(Arena scratch, const double *x, uint32_t n);

void past_put_number(Text *t, double x, int width); // right-aligned, - for NaN

// --- compare.c, compare_page.c: several runs -----------------------------------------------------

typedef VEC(Past) Pasts;
// A table: a heading, then a row for each run, then one for each set of runs that differ in nothing
// but their seeds: mean and standard deviation.
typedef struct Cells {
    uint32_t rows, columns, runs; // rows: heading and all others
    Str *at;                      // [rows, columns]
} Cells;
Cells compare_cells(Arena *a, const Pasts *runs);
void compare_text(Text *t, const Cells *c);
// RFC 4180, every cell in quotes, for programs: a row for each run, each cell one number or text,
// or empty; numbers read back exactly.
GanStatus compare_csv(Arena scratch, const Pasts *runs, Str path);
// One HTML file that asks for no other: the table, curves over one another, newest samples.
GanStatus compare_page(Arena scratch, const Pasts *runs, const Cells *c, Str path);

#endif
