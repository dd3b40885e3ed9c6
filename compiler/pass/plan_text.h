// plan_text.h - the lines of a plan's text, shared by who writes it (plan_text.c) and who reads it
// (plan_read.c):
//
//   module ...                        the module's own form (ir/text.h), its graphs as the passes
//                                     left them
//   plans plan f32                    the level: fused, schedule or plan; the precision; "unfused"
//                                     where regions are of a node each
//     rank 0 of 2 batch 16            of several ranks: whose plans these are, the whole batch
//     slot 3 at 4096                  plan: where slots lie
//   func 1 model 0.25                 init, step, entries; GFLOP of the published step
//     region 0                        fused: which values are stored together is all that fusion
//                                     decides
//       store %12 at 64               plan: with its place, unless it lies in a slot
//     block 0                         schedule: a line for every block, its launches behind it
//       launch 0 3                    regions side by side
//     rest 0                          what else the block does, behind the tail of this number
//     tail 0                          behind the lines of its block: what that leaves to others
//
// Everything else a plan holds follows from these lines and is derived when they are read; what a
// reader of the text wants to see of it stands in remarks (#). A field is written and read by one
// function, its row's. The text is a function of the plans alone.
#ifndef GAN_PLAN_TEXT_H
#define GAN_PLAN_TEXT_H

#include "plan.h"
#include "words.h"

extern const char *const plan_level_text[PlanPlaced + 1];
extern const char *const region_kind_text[]; // RegionKind

typedef struct Form {
    PlanLevel level;
    Text *t;  // written to, NULL when reading
    Words *w; // read from
} Form;

typedef struct Line { // what any kind of line can say
    uint32_t index;   // of a slot, rank, function, region, block, tail
    uint32_t ranks;   // rank
    int64_t batch;    // rank: of all
    uint32_t node;    // store
    size_t at;        // slot, store: NO_PLACE when it has none of its own
    double model;     // func
    NodeList regions; // launch
} Line;
#define NO_PLACE SIZE_MAX
// Of one value, and of all slots or of all values of a function: no sum of sizes can wrap.
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
