// plan_text.h - the grammar of a plan's text, shared by its printer (plan_text.c) and its parser
// (plan_read.c):
//
//   module ...                        the module's own form (ir/text.h), graphs after all passes
//   plans plan f32                    level: fused, schedule or plan; precision; "unfused" where
//                                     each region is one node
//     rank 0 of 2 batch 16            with several ranks: this one, and the global batch
//     slot 3 at 4096                  plan: offset of a slot
//   func 1 model 0.25                 init, step, entries; GFLOP of the published step
//     region 0                        fused: a region is the set of values it stores
//       store %12 at 64               plan: with its offset, unless it lies in a slot
//     block 0                         schedule: each block, followed by its launches
//       launch 0 3                    one launch of these regions
//     rest 0                          the rest of the block, which runs after tail 0
//     tail 0                          after the lines of its block: the end it defers (Tail)
//
// These lines are decisions. The rest of a plan is derived from them when they are read, and
// printed as comments (#). The same function prints and parses a line's fields. The text depends on
// the plans only.
#ifndef GAN_PLAN_TEXT_H
#define GAN_PLAN_TEXT_H

#include "stages.h"
#include "words.h"

extern const char *const plan_level_text[PlanPlaced + 1];
extern const char *const region_kind_text[]; // RegionKind

typedef struct Form {
    PlanLevel level;
    Text *t;  // written to, NULL when reading
    Words *w; // read from
} Form;

typedef struct Line { // fields of all kinds of lines
    uint32_t index;   // of a slot, rank, function, region, block, tail
    uint32_t ranks;   // rank
    int64_t batch;    // rank: of all
    uint32_t node;    // store
    size_t at;        // slot, store: NO_PLACE when it has no offset of its own
    double model;     // func
    NodeList regions; // launch
} Line;
#define NO_PLACE SIZE_MAX
// Bounds of one value's bytes, and of a function's or all slots': no sum of sizes can overflow.
static const double MostBytes = 1e14, MostBytesTogether = 1e18;

typedef enum LineId {
    LineRank,
    LineSlot,
    LineFunc,
    LineRegion,
    LineStore,
    LineBlock,
    LineLaunch,
    LineRest,
    LineTail,
    LineCount
} LineId;

typedef struct LineRow {
    const char *word;
    uint32_t indent;
    PlanLevel from;                      // the first level that has it
    bool (*fields)(Form *f, Line *line); // writes them, or reads and may refuse them
} LineRow;
extern const LineRow plan_line[LineCount];

#endif
