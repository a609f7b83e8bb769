"""`ga3c report`: runs and results of benchmarks as one HTML file that needs no network, no other file and no script.

`folders` tells runs from results, `record` reads a run and `results` a benchmark's folder, and `page` puts the sections
together. `markup` escapes; `chart` and `drawing` draw SVG. Each of the others is one section.
"""
