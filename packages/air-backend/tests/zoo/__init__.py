"""The zoo: a tiny model with random weights of every architecture of the libraries, in every mode, judged by eager.

    nox -s zoo                                             everything on the CPU; hours
    nox -s zoo -- --shard 3/40 --libraries timm            the third of forty parts of one library
    nox -s zoo -- --ground sim --only llama mixtral        architectures by name, on the NPU of air-sim
    nox -s zoo -- --page                                   docs/models.md again, from the results that are kept

No architecture is chosen by hand: the libraries list them, configurations are shrunk by the names of their numbers
(`shrinking`), and the first step of a ladder from small to large that runs in eager is taken. The results are one file
for each ground, `docs/models/<ground>.json`; a part that runs replaces its own rows.

It lies with the tests of air-backend because it is one: of the package that composes all others, with libraries that
only tests install; no wheel needs it.
"""
