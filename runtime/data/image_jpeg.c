// image_jpeg.c - JPEG in through libjpeg-turbo: grey and YCbCr/RGB; four-channel pictures are
// refused.
//
// libjpeg leaves by longjmp from its error hook, and mends damage with a warning and grey pixels. A
// training set should not hold grey halves, so such warnings count as errors here. One function
// calls setjmp and owns nothing.
#include "data.h"

#include <setjmp.h>
#include <string.h>

#include <jpeglib.h>

#include <jerror.h>

typedef struct JpegJob {
    struct jpeg_error_mgr errors; // first: the library's pointer to it is the job's
    struct jpeg_decompress_struct jpeg;
    jmp_buf back;
    const uint8_t *data; // borrowed
    size_t n;
    Image image; // owned
    GanStatus st;
    char why[JMSG_LENGTH_MAX];
} JpegJob;

static _Noreturn void stop(JpegJob *job, GanStatus st) {
    job->st = st;
    longjmp(job->back, 1);
}

static _Noreturn void on_error(j_common_ptr common) {
    JpegJob *job = (JpegJob *)common->err;
    common->err->format_message(common, job->why);
    stop(job, GAN_ERR_INPUT);
}

static void on_message(j_common_ptr common, int level) {
    if (level >= 0)
        return;
    switch (common->err->msg_code) {
    case JWRN_EXTRANEOUS_DATA: // cameras leave such bytes between markers; the picture is whole
    case JWRN_ADOBE_XFORM:
    case JWRN_JFIF_MAJOR:
        return;
    case JWRN_JPEG_EOF: {
        JpegJob *job = (JpegJob *)common->err;
        snprintf(job->why, sizeof job->why, "the file ends too early");
        stop(job, GAN_ERR_INPUT);
    }
    default:
        on_error(common);
    }
}

static bool decode_rows(JpegJob *job) {
    if (setjmp(job->back))
        return false;
    jpeg_create_decompress(&job->jpeg);
    jpeg_mem_src(&job->jpeg, job->data, (unsigned long)job->n);
    jpeg_read_header(&job->jpeg, TRUE);
    if (job->jpeg.num_components == 4) {
        snprintf(job->why, sizeof job->why, "CMYK pictures are not read; convert it to RGB");
        stop(job, GAN_ERR_INPUT);
    }
    bool grey = job->jpeg.num_components == 1;
    job->jpeg.out_color_space = grey ? JCS_GRAYSCALE : JCS_RGB;
    job->jpeg.dct_method = JDCT_ISLOW; // the exact one: the same pixels on every machine
    GanStatus st =
        image_new(job->jpeg.image_width, job->jpeg.image_height, grey ? 1 : 3, 8, &job->image);
    if (st != GAN_OK) {
        snprintf(job->why, sizeof job->why, "%s", gan_error());
        stop(job, st);
    }
    jpeg_start_decompress(&job->jpeg);
    size_t bytes = (size_t)job->image.w * job->image.channels;
    while (job->jpeg.output_scanline < job->jpeg.output_height) {
        JSAMPROW row = (JSAMPROW)job->image.pixels + job->jpeg.output_scanline * bytes;
        jpeg_read_scanlines(&job->jpeg, &row, 1);
    }
    jpeg_finish_decompress(&job->jpeg);
    return true;
}

GanStatus image_jpeg_decode(const uint8_t *data, size_t n, Image *out) {
    JpegJob job = {.data = data, .n = n};
    job.jpeg.err = jpeg_std_error(&job.errors);
    job.errors.error_exit = on_error;
    job.errors.emit_message = on_message;
    bool ok = decode_rows(&job);
    jpeg_destroy_decompress(&job.jpeg);
    if (!ok)
        image_release(&job.image);
    *out = job.image;
    return ok ? GAN_OK : fail(job.st, "broken JPEG: %s", job.why);
}
