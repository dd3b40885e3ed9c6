"""Writes the HDF5 files of data_test.c beside this script (needs h5py): each as some program leaves them."""
import os
import h5py
import numpy as np

here = os.path.dirname(os.path.abspath(__file__))


def value(*shape):  # what the test expects at flat place i
    n = int(np.prod(shape))
    return ((np.arange(n) * 7) % 101).reshape(shape)


def file(name, **kw):
    return h5py.File(os.path.join(here, name), "w", **kw)


with file("clouds.h5") as f:  # as the protein study stores them
    f.create_dataset("point_cloud", data=value(5, 3, 40).astype("f4") / 10, chunks=(1, 3, 40), fletcher32=True)
    f.create_dataset("rmsd", data=value(5).astype("f2"), chunks=(1,), fletcher32=True)
with file("packed.h5", libver=("v110", "v110")) as f:  # new format, compressed, big-endian doubles
    f.create_dataset("maps", data=value(6, 1, 8, 8).astype(">f8"), chunks=(4, 1, 8, 8), compression="gzip", shuffle=True)
with file("part.h5") as f:  # compressed, and not written to its end
    x = f.create_dataset("x", shape=(5, 3, 4), dtype="u1", chunks=(2, 3, 4), compression="gzip")
    x[:3] = value(3, 3, 4)
with file("bytes.h5") as f:  # contiguous pictures and a second set
    f["train"] = value(4, 3, 8, 8).astype("u1")
    f["test"] = value(2, 3, 8, 8).astype("u1")
with file("other.h5") as f:
    f["words"] = np.array([[b"a", b"b"]])
with file("gap.h5") as f:
    x = value(3, 4).astype("f4")
    x[1, 2] = np.nan
    f["x"] = x
with file("groups.h5") as f:  # as the Well and others: nothing in the root group
    f["fields/flow/u"] = value(2, 3).astype("f4")
    f["fields/v"] = value(2, 4).astype("f4")
    f["fields/times"] = value(5).astype("f4")
    f["fields/again"] = f["fields"]  # a circle
with file("group.h5") as f:
    f["run/maps"] = value(2, 5).astype("f4")
    f["run/times"] = value(5).astype("f4")
with file("elsewhere.h5") as f:  # every way in which a file can name others that the library would open
    f.create_dataset("external", shape=(2, 3, 8, 8), dtype="u1", external=[("/dev/zero", 0, 384)])
    f["linked"] = h5py.ExternalLink("bytes.h5", "/test")
    f["group/own"] = value(2, 3).astype("f4")
    f["outside"] = h5py.ExternalLink("bytes.h5", "/")
    layout = h5py.VirtualLayout(shape=(2, 3, 8, 8), dtype="u1")
    layout[:] = h5py.VirtualSource("bytes.h5", "test", shape=(2, 3, 8, 8))
    f.create_virtual_dataset("virtual", layout)
