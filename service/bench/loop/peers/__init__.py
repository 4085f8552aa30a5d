"""Other libraries at the same work, one module each, named as the library is.

They run by the Python that has those libraries, which has not those of Rondo: nothing but the
standard library, the peer itself and `service.bench.loop.bench_worker` may be imported here.
"""
