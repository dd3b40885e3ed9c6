// tail_models.h - a model whose blocks defer their tails (program.h) to later blocks, rounds or
// steps, in every possible way.
#ifndef GAN_TAIL_MODELS_H
#define GAN_TAIL_MODELS_H

#include "base.h"

// With a rising learning rate, and large all-reduces and values in tails. A step follows.
static const char tail_model_head[] =
    "model tails\ndata x : image(2, 4, 4) scale(-1, 1)\n"
    "net G(z: [4]) -> [2, 4, 4] = z |> dense(900) |> batch_norm |> tanh |> dense(32) |> "
    "reshape(2, 4, 4)\n"
    "net D(x: [2, 4, 4]) -> [] = x |> conv(4, k=3, pad=1) |> leaky_relu(0.2) |> flatten |> "
    "dense(500) |> tanh |> dense(1) |> squeeze\n"
    "fn tamed(opt)(w, g) {\n  new = opt(w, g)\n  new/max(1, sqrt(total(norm2(new)))/9)\n}\n"
    "opt = tamed(adam(lr=warmup(1e-2, 3), beta1=0.5))\n"
    "sample fakes = G(normal(4))\n";

#define UPDATE_D "update D minimize wasserstein(D(x), D(stop(G(normal(4))))) using opt\n"
#define UPDATE_G "update G minimize -mean(D(G(normal(4)))) using opt\n"
static const struct TailModel {
    const char *step;
    uint32_t tails; // blocks that defer their end
} tail_models[] = {
    {UPDATE_D UPDATE_G, 1},
    {"repeat 2 { " UPDATE_D "}\n" UPDATE_G, 2}, // to the next round, and to the blocks after
    {UPDATE_G "repeat 3 { " UPDATE_D "}\n", 1}, // and to the next step; deferring G's gains nothing
    {"repeat 2 { repeat 2 { " UPDATE_D "}\n" UPDATE_G "}\n", 2},
    {"repeat 3 { " UPDATE_D UPDATE_G "}\n", 1},
    {"repeat 2 { " UPDATE_D "}\nevery 2 { " UPDATE_G "}\n", 2},
    {"every 2 { " UPDATE_D "}\n" UPDATE_G, 2},
    {"repeat 2 { " UPDATE_D "}\nevery 2 { " UPDATE_G "}\nevery 3 { " UPDATE_G "}\n", 2},
    {"every 2 { " UPDATE_D "}\nevery 3 { " UPDATE_G "}\n", 1},
    {"every 3 { repeat 2 { " UPDATE_D "}\n}\nevery 2 { " UPDATE_G "}\n", 1},
    {UPDATE_D "if step > 2 { " UPDATE_D "} else { " UPDATE_G "}\n" UPDATE_G, 3},
};
#undef UPDATE_D
#undef UPDATE_G
enum { TAIL_MODELS = sizeof tail_models / sizeof *tail_models };

#endif
