// page.h - building blocks of the HTML pages, which are self-contained.
#ifndef GAN_PAGE_H
#define GAN_PAGE_H

#include "job.h"
#include "runlog.h"

void page_begin(Text *t, Str title); // up to and with the heading; "</body></html>\n" ends it
void page_text(Text *t, Str s);      // escaped
typedef VEC(uint32_t) PageSteps;
// Steps of the sample grids in a folder of a run (run_samples) up to `most`, ascending. Fails when
// there is no such folder.
GanStatus page_images(Arena *a, Str run, Str folder, uint32_t most, PageSteps *out);
// The grid of a step, inside the page; `kind` is its class.
GanStatus page_image(Text *t, Str run, Str folder, uint32_t step, const char *kind, Str caption);
// Its sounds, to be played; none: nothing.
GanStatus page_sound(Text *t, Str run, Str folder, uint32_t step);

// --- index.html ----------------------------------------------------------------------------------

typedef struct Page {
    Str dir;
    const Job *job;
    const Module *module;
    const RunLog *log;
    uint32_t step; // steps done
} Page;
GanStatus page_write(Arena scratch, const Page *p);

#endif
