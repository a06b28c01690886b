"""Automation for the AIR monorepo: one family of sessions per package.

    nox                          every check CI runs, lowest layer first
    nox -s demo                  the main job: a tiny Llama through every mode, on this machine
    nox -s demo -- --sim         the same on air-sim, under the real torch_npu
    nox -s tests-air-streams     the tests of one package, with only what it declares
    nox -s npu-air-aclgraph      the tests marked `npu`, on the real torch_npu over air-sim
    nox -t types                 mypy --strict for every package
    nox -s older-torch           the tests of every package on torch 2.11 and 2.12
    nox -s bench-aclgraph        the benchmarks of a package, as a table and as JSON
    nox -s zoo                   tiny models of every architecture of three libraries, hours; `-- --shard 3/40` of it
    nox -s clients -- --torchair PATH --torch-npu PATH     their tests from your checkouts, on AIR and on theirs
    nox -s long                  what CI has no time for, in rotation
    nox -s build install         wheels, then a newcomer's path from them alone
    nox -s release               what is published: sdists and wheels, looked into, used, tested; sums and an SBOM
    nox -s site                  the guide as a site, in build/site
    nox -s prepare               all that other sessions install or build when they first need it
    nox -l                       all sessions, also those that CI does not run

What packages declare is read by `house.packages`; how environments are made and shared, `house.environments` says.
"""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import nox
from packaging.requirements import Requirement

sys.path.insert(0, str(Path(__file__).resolve().parent))

from house.benchmarks import BENCHMARKS
from house.environments import (
    ENV,
    NPU_ENV,
    PYTHONS,
    TOOLS,
    WITHOUT_PIP,
    base,
    browser,
    install,
    install_beside_npu,
    install_tested,
    library,
    npu_base,
    reveal_interpreters,
    see,
    site_of,
)
from house.newcomer import from_sdist, newcomer
from house.packages import (
    LAYERS,
    NPU_TESTED,
    PACKAGES,
    ROOT,
    closure,
    declared,
    declared_libraries,
    editable,
    proofs,
    with_tests,
)

nox.needs_version = ">=2025.2.9"
nox.options.default_venv_backend = "venv"  # uv does not see a CPU build of torch that pip was pointed to
nox.options.error_on_missing_interpreters = False
nox.options.tags = ["ci"]

OLDER_TORCHES = ("2.11.0", "2.12.1")  # supported as well; their wheels bring CUDA, gigabytes of it
RUFF = "ruff>=0.17,<0.18"
ZOO = ("diffusers>=0.42", "timm>=1.0")  # libraries of models, beside the one that tests declare
EXAMPLES_NEED = ("transformers>=4.50", "numpy")
NOTEBOOKS_NEED = ("nbclient>=0.10", "nbformat>=5.10", "ipykernel>=6.29")
SITE_NEEDS = ("mkdocs-material>=9.6,<10", "mkdocs-static-i18n>=1.3,<2", "jieba", "playwright>=1.50")
RELEASE_NEEDS = ("hatchling>=1.27", "twine>=6", "check-wheel-contents>=0.6", "cyclonedx-bom>=7")
PURE = "air-config"  # needs no torch: tested on every Python the machine has
TORCH_TESTED = tuple(package for package in PACKAGES if package not in (PURE, "air-sim"))
DEPTRY = ("--ignore", "DEP002", "--per-rule-ignores", "DEP003=sympy")  # torch's sizes are sympy expressions
PICTURED = (
    "air-graph",
    "air-streams",
    "air-geir",
    "air-backend",
)  # their pages are opened in a browser by tests
UNTYPED_TESTS = ("air-sim",)  # tests that speak to torch_npu, which has no types, all along
NOOP = {"AIR_SIM_NOOP": "1"}
NO_TESTS = 5  # pytest's exit code
WORKERS = ("-n", "2", "--dist", "worksteal")  # long tests of one module end up on both


READ_BY_HOSTS = (  # schema, files
    ("vendor.github-workflows", ".github/workflows/*.yml"),
    ("custom.github-workflows-require-timeout", ".github/workflows/*.yml"),
    ("vendor.github-issue-forms", ".github/ISSUE_TEMPLATE/[!c]*.yml"),
    ("vendor.github-issue-config", ".github/ISSUE_TEMPLATE/config.yml"),
    ("vendor.dependabot", ".github/dependabot.yml"),
    ("vendor.citation-file-format", "CITATION.cff"),
)
GENERATED = (  # documents that are made from code: package, module that makes or checks them
    ("air-config", ("-m", "air_config", "docs", "--check")),
    ("air-geir", ("-m", "air_geir", "operators", "--check", "docs/operators.md")),
    ("house", ("-m", "house.api", "--check")),
    ("house", ("-m", "house.error_index", "--check")),
)


reveal_interpreters()
# the tests start hundreds of processes: compile a module once, and of the packages installed only what is imported
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
os.environ["PIP_COMPILE"] = "0"


def pytest(session: nox.Session, *arguments: str, env: dict[str, str]) -> None:
    """Runs pytest with its results kept for the ledger; finding no test at all is a failure."""
    result = ROOT / ".nox" / "results" / f"{session.name}.xml"
    command = ("python", "-m", "pytest", "-q", "--timeout", "900", "--durations", "5", f"--junitxml={result}")
    session.run(*command, *arguments, *session.posargs, env=env)


def tests(session: nox.Session, package: str) -> None:
    """The tests that need no device, with only what the package declares."""
    install_tested(session, package)
    if package in PICTURED:
        browser(session)
    where = f"packages/{package}/tests"
    pytest(session, *WORKERS, *proofs(package), "-m", "not npu and not slow", where, env=ENV)


def types(session: nox.Session, package: str) -> None:
    """mypy --strict over the sources and the tests.

    Every package is checked beside the same libraries: mypy would analyse torch anew where one more of those that torch
    may import is found, or one less.
    """
    libraries = (library(session, text) for text in declared_libraries(*PACKAGES))
    see(session, site_of(base(session)), *libraries)
    folder = ROOT / "packages" / package
    what = ["src"] if package in UNTYPED_TESTS else ["src", "tests"]
    own = what if any((folder / "tests").glob("[!t_c]*.py")) else ["src"]
    siblings = [f"../{name}/src" for name in closure(package) if name != package]
    session.chdir(folder)
    command = ("python", "-m", "mypy", "--config-file", "../../pyproject.toml")
    cache = ("--cache-dir", str(ROOT / ".mypy_cache"))
    session.run(*command, *cache, *what, env=ENV | {"MYPYPATH": ":".join([*own, *siblings])})


def npu(session: nox.Session, package: str) -> None:
    """The tests marked `npu`, on the real torch_npu over air-sim."""
    install_tested(session, package, npu_base(session))
    session.install("-q", "--no-build-isolation", *editable("air-sim"), env=ENV)
    ignored = ("--ignore", "packages/air-sim/tests/ops/test_opinfo.py") if package == "air-sim" else ()
    wanted = "not slow" if package == "air-sim" else "npu and not slow"
    where = f"packages/{package}/tests"
    pytest(session, "--sim", *WORKERS, *proofs(package), "-m", wanted, *ignored, where, env=NPU_ENV)


def bench(session: nox.Session, package: str) -> None:
    """The benchmarks of a package; tables on the terminal, JSON, where there is some, in .nox/results."""
    install(session, *with_tests(package), *editable("air-sim"))
    results = ROOT / ".nox" / "results"
    results.mkdir(parents=True, exist_ok=True)
    for benchmark in sorted(BENCHMARKS[package], key=lambda b: b.simulated):
        if benchmark.simulated:  # only now: transformers imports a torch_npu that it finds
            see(session, site_of(base(session)), npu_base(session))
        script = ROOT / "packages" / package / "benchmarks" / benchmark.script
        python = ("air-sim", "run", "python") if benchmark.simulated else ("python",)
        queue = "-queue" if benchmark.queue == "1" else ""
        json = (
            ("--json", str(results / f"{package}-{script.stem}{queue}.json")) if benchmark.writes_json else ()
        )
        env = NPU_ENV | {"TASK_QUEUE_ENABLE": benchmark.queue} if benchmark.simulated else ENV
        env = env | NOOP if benchmark.simulated and benchmark.noop else env
        session.run(*python, str(script), *benchmark.arguments, *json, *session.posargs, env=env)


def family(check: Callable[[nox.Session, str], None], name: str, package: str, *tags: str) -> None:
    """Registers the session of one package that does `check`."""

    @nox.session(
        name=f"{name}-{package.removeprefix('air-') if name == 'bench' else package}",
        tags=[*tags, name],
        venv_params=WITHOUT_PIP,
    )
    @functools.wraps(check, assigned=("__doc__",))
    def of_package(session: nox.Session) -> None:
        check(session, package)


@nox.session(venv_params=WITHOUT_PIP)
def prepare(session: nox.Session) -> None:
    """Installs and builds what other sessions wait for when they first need it."""
    for text in declared_libraries(*PACKAGES):
        library(session, text)
    browser(session)
    install_beside_npu(session, *editable("air-sim"))
    session.run("air-sim", "build", env=ENV)


@nox.session(tags=["ci"], venv_backend="none")
def ahead(session: nox.Session) -> None:
    """Starts `prepare` in the background, for the moments in which the sessions after this one leave a processor idle.

    A session that comes to something unfinished waits for it; what has failed it does itself, and says how.
    """
    report = ROOT / ".nox" / "prepare.log"
    report.parent.mkdir(exist_ok=True)
    command = ("nice", "-n", "19", sys.executable, "-m", "nox", "--no-color", "-s", "prepare")
    with report.open("w") as log:
        process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=subprocess.STDOUT)

    def conclude() -> None:
        process.terminate()
        if process.wait():
            session.warn(f"`nox -s prepare` did not finish in the background: {report}")

    atexit.register(conclude)


@nox.session(name=f"tests-{PURE}", python=PYTHONS, tags=["ci", "tests"], venv_backend="virtualenv")
def tests_pure(session: nox.Session) -> None:
    """The tests of the package that needs no torch, on every Python that the machine has."""
    session.install("-q", *(tool for tool in TOOLS if Requirement(tool).name not in ("pip", "mypy")))
    session.install("-q", "--no-build-isolation", *with_tests(PURE))
    pytest(session, *WORKERS, *proofs(PURE), f"packages/{PURE}/tests", env=ENV)


for _package in PACKAGES:
    family(types, "types", _package, "ci")
    if _package in TORCH_TESTED:
        family(tests, "tests", _package, "ci")
for _package in NPU_TESTED:
    family(npu, "npu", _package, "ci")
for _package in BENCHMARKS:
    family(bench, "bench", _package)


@nox.session(name="sim-opinfo", venv_params=WITHOUT_PIP)
def sim_opinfo(session: nox.Session) -> None:
    """torch's operator database on the npu device of air-sim; AIR_SIM_OPINFO=full takes every sample."""
    install_beside_npu(session, *with_tests("air-sim"))
    pytest(session, "--sim", "packages/air-sim/tests/ops/test_opinfo.py", env=NPU_ENV)


@nox.session(name="sim-sanitize", venv_params=WITHOUT_PIP)
def sim_sanitize(session: nox.Session) -> None:
    """The C++ tests of air-sim's runtime under the thread and the address sanitizer."""
    install_beside_npu(session, *editable("air-sim"))
    for sanitizer in session.posargs or ("thread", "address"):
        session.run("python", "packages/air-sim/tests/native/sanitize.py", sanitizer, env=ENV)


@nox.session(venv_params=WITHOUT_PIP)
def fuzz(session: nox.Session) -> None:
    """Random programs: 20,000 through each mode, 100,000 through the passes; `nox -s fuzz -- 500` for 500 each."""
    install(session, *with_tests("air-fxpasses"), *with_tests("air-backend"))
    random_programs(session, "air-backend", "20000", "-m", "not npu", env=ENV)
    random_programs(session, "air-fxpasses", "100000", env=ENV)


@nox.session(name="npu-fuzz", venv_params=WITHOUT_PIP)
def npu_fuzz(session: nox.Session) -> None:
    """2,000 random programs through each mode on the real torch_npu over air-sim; `-- 500` runs a tenth of so many."""
    install_beside_npu(session, *with_tests("air-backend"), *editable("air-sim"))
    reported_once = {"AIR_SIM_STICKY": "0"}  # what eager refuses must not end what follows it
    random_programs(session, "air-backend", "20000", "--sim", "-m", "npu", env=NPU_ENV | reported_once)


def random_programs(
    session: nox.Session, package: str, count: str, *arguments: str, env: dict[str, str]
) -> None:
    """The random programs of a package: as many as the session says, or as it was asked for."""
    wanted = session.posargs[0] if session.posargs else count
    command = ("python", "-m", "pytest", "-q", f"packages/{package}/tests/fuzz", "--fuzz-programs", wanted)
    quiet = ("-n", "2", "-p", "no:logging")  # captured logs would fill the memory
    session.run(*command, *quiet, *arguments, env=env)


def in_turn(session: nox.Session, packages: Sequence[str], *arguments: str, env: dict[str, str]) -> None:
    """pytest for one package after the other: modules of two test folders may have the same name.

    Paths after `--` are tested instead. That a package has no such test is no failure here.
    """
    for where in session.posargs or [f"packages/{package}/tests" for package in packages]:
        command = ("python", "-m", "pytest", "-q", "--timeout", "1800", *WORKERS, *arguments, where)
        session.run(*command, env=env, success_codes=[0, NO_TESTS])


@nox.session(venv_params=WITHOUT_PIP)
def slow(session: nox.Session) -> None:
    """The tests marked `slow` of every package, on the CPU; `-- packages/air-aclgraph/tests` runs those of one."""
    install(session, *(word for package in TORCH_TESTED for word in with_tests(package)))
    in_turn(session, TORCH_TESTED, "-m", "slow and not npu", env=ENV)


@nox.session(name="npu-slow", venv_params=WITHOUT_PIP)
def npu_slow(session: nox.Session) -> None:
    """The tests marked `slow` of every package, on the real torch_npu over air-sim; paths after `--` run fewer."""
    install_beside_npu(session, *(word for package in NPU_TESTED for word in with_tests(package)))
    in_turn(session, NPU_TESTED, "--sim", "-m", "slow and npu", env=NPU_ENV)


@nox.session(venv_backend="none")
def long(session: nox.Session) -> None:
    """Long sessions in rotation, the one green longest ago first; `-- --minutes 120` is the time there is."""
    session.run(sys.executable, "-m", "house.long", *session.posargs)


@nox.session(name="older-torch", venv_params=WITHOUT_PIP)
@nox.parametrize("torch", OLDER_TORCHES)
def older_torch(session: nox.Session, torch: str) -> None:
    """The tests that need no device, of every package, on an older torch that AIR supports."""
    install(
        session, *(word for package in TORCH_TESTED for word in with_tests(package)), torch=f"torch=={torch}"
    )
    in_turn(session, TORCH_TESTED, "-m", "not npu and not slow", env=ENV)


@nox.session(venv_params=WITHOUT_PIP)
def zoo(session: nox.Session) -> None:
    """Tiny random models of every architecture in both modes, judged by eager; `-- --help` says what can be asked."""
    simulated = "sim" in session.posargs
    beside = [npu_base(session)] if simulated else []
    install_tested(session, "air-backend", *beside, *(library(session, text) for text in ZOO))
    session.install("-q", "--no-build-isolation", *editable("air-sim"), env=ENV)
    session.chdir("packages/air-backend/tests")
    start = ("air-sim", "run") if simulated else ()
    session.run(*start, "python", "-m", "zoo", *session.posargs, env=NPU_ENV if simulated else ENV)


@nox.session(venv_params=WITHOUT_PIP)
def clients(session: nox.Session) -> None:
    """Tests of TorchAir and torch_npu, and vLLM-Ascend's compilation, from checkouts: `-- --torchair PATH` and more."""
    install_beside_npu(session, *with_tests("air-backend"), *editable("air-sim"))
    session.run("python", "-m", "house.clients", *session.posargs, env=NPU_ENV)


@nox.session(tags=["ci"], venv_params=WITHOUT_PIP)
def layers(session: nox.Session) -> None:
    """Declared dependencies and imports point down; nothing undeclared is imported."""
    rank = {package: row for row, layer in enumerate(LAYERS) for package in layer}
    up = [f"{p} -> {d}" for p in PACKAGES for d in declared(p) if rank[d] >= rank[p]]
    if up:
        session.error(f"dependencies that do not point to a lower layer: {', '.join(up)}")
    install(session, "import-linter>=2.3", "deptry>=0.23", *editable(*PACKAGES))
    session.run("python", "-c", "from importlinter.cli import lint_imports_command as c; c()", env=ENV)
    for package in PACKAGES:
        with session.chdir(ROOT / "packages" / package):
            session.run("python", "-m", "deptry", "src", *DEPTRY, env=ENV)


@nox.session(tags=["ci"], venv_params=WITHOUT_PIP)
def lint(session: nox.Session) -> None:
    """ruff check, ruff format, the house rules that ruff cannot check, and the schemas of what a code host reads."""
    install(session, RUFF, "check-jsonschema>=0.33")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("python", "-m", "house.files")
    session.run("python", "-m", "house.project")
    for schema, pattern in READ_BY_HOSTS:
        files = sorted(str(path) for path in ROOT.glob(pattern))
        session.run("check-jsonschema", "--quiet", "--builtin-schema", schema, *files)


@nox.session(tags=["ci"], venv_params=WITHOUT_PIP)
def house(session: nox.Session) -> None:
    """The checks check: each of them fails on a copy of the repository that breaks its rule; they are typed."""
    install(session, "nox", RUFF)
    mypy = ("python", "-m", "mypy", "--config-file", "pyproject.toml", "--python-version", "3.11")
    session.run(*mypy, "--cache-dir", str(ROOT / ".mypy_cache"), "house", "noxfile.py", env=ENV)
    session.run("python", "-m", "house.long", "--check")
    pytest(session, *WORKERS, "house/tests", env=ENV | {"AIR_TORCH_ENV": str(base(session).parent)})


@nox.session(tags=["ci"], venv_params=WITHOUT_PIP)
def docs(session: nox.Session) -> None:
    """Generated pages are up to date, links lead somewhere, and the marked snippets run."""
    install_beside_npu(session, *editable("air-backend", "air-sim"))
    for _, command in GENERATED:
        session.run("python", *command, env=ENV)
    session.run("python", "-m", "house.links", env=ENV)
    session.run("python", "-m", "house.translations", env=ENV)
    session.run("python", "-m", "house.features", "--check", env=ENV)
    session.run("python", "-m", "house.snippets", env=ENV)
    session.run("air-sim", "run", "python", "-m", "house.snippets", "--ground", "sim", env=NPU_ENV)


@nox.session(tags=["ci"], venv_params=WITHOUT_PIP)
def site(session: nox.Session) -> None:
    """The guide as a site in build/site, English and Chinese, its links checked, opened in Chromium."""
    see(session, site_of(base(session)), *(library(session, text) for text in SITE_NEEDS))
    browser(session)
    session.run("python", "-m", "mkdocs", "build", "--quiet", env=ENV | {"NO_MKDOCS_2_WARNING": "1"})
    session.run("python", "-m", "house.built_site", "build/site")
    pytest(session, "house/site_tests", env=ENV)


@nox.session(tags=["ci"], venv_params=WITHOUT_PIP)
def build(session: nox.Session) -> None:
    """One wheel per package into dist/."""
    install(session, "hatchling>=1.27")
    shutil.rmtree(ROOT / "dist", ignore_errors=True)
    for package in PACKAGES:
        wheel = ("python", "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", "dist")
        session.run(*wheel, f"packages/{package}", env=ENV)


@nox.session(name="install", tags=["ci"], venv_params=WITHOUT_PIP)
def install_wheels(session: nox.Session) -> None:
    """A newcomer's path, outside of the checkout: the wheels of dist/, then doctor, demo and the quick start."""
    install(session, "--find-links", "dist", "--no-cache-dir", "air-backend")
    session.run("python", "-m", "pip", "check", env=ENV)
    newcomer(session)


@nox.session(venv_params=WITHOUT_PIP)
def release(session: nox.Session) -> None:
    """What is published, in dist/: built, looked into, installed, used, tested; sums and a bill of materials beside it.

    `-- --publishable` also refuses addresses that are placeholders.
    """
    see(session, site_of(base(session)), *tools_and(session, ()))
    session.run("python", "-m", "house.project", *session.posargs)
    session.run("python", "-m", "house.translations", "--strict")
    session.run("python", "-m", "house.release", "build")
    session.run("python", "-m", "house.release", "check")
    built = sorted(str(path) for path in (ROOT / "dist").iterdir())
    session.run("python", "-m", "twine", "check", "--strict", *built)
    session.run("python", "-m", "check_wheel_contents", *(path for path in built if path.endswith(".whl")))
    session.install("-q", "--no-index", "--no-deps", "--find-links", "dist", "--no-cache-dir", *PACKAGES)
    wanted = (*declared_libraries(*PACKAGES), "protobuf>=3.20")
    see(session, site_of(base(session)), *tools_and(session, wanted))
    session.run("python", "-m", "pip", "check", env=ENV)
    pinned = ROOT / "build" / "pinned.txt"
    pinned.write_text(str(session.run("python", "-m", "house.release", "pins", silent=True, env=ENV)))
    bill = ("--output-reproducible", "-o", "dist/sbom.cdx.json", str(pinned))
    session.run("python", "-m", "cyclonedx_py", "requirements", *bill)
    session.run("python", "-m", "house.release", "sums")
    newcomer(session)
    from_sdist(session, "air-config", "air-streams", options=WORKERS)


def tools_and(session: nox.Session, wanted: Sequence[str]) -> list[Path]:
    """The folders of the release's tools and of other libraries."""
    return [library(session, text) for text in (*RELEASE_NEEDS, *wanted)]


@nox.session(venv_params=WITHOUT_PIP)
def demo(session: nox.Session) -> None:
    """The main job: a tiny Llama in eager, run-eagerly, reduce-overhead and max-autotune, compared."""
    if "--sim" in session.posargs:
        install_beside_npu(session, *editable("air-backend", "air-sim"))
        session.run("air", "demo", *session.posargs, env=NPU_ENV)
        return
    install(session, *editable("air-backend"))
    session.run("air", "demo", *session.posargs, env=ENV)


@nox.session(tags=["ci"], venv_params=WITHOUT_PIP)
def examples(session: nox.Session) -> None:
    """The examples run as their READMEs say, but for those that take longest; and every notebook."""
    needed = (*EXAMPLES_NEED, *NOTEBOOKS_NEED)
    see(session, site_of(base(session)), *(library(session, text) for text in needed))
    session.install("-q", "--no-build-isolation", *editable("air-backend"), env=ENV)
    session.run("python", "-m", "house.examples", "--quick", *session.posargs, env=ENV)
    session.run("python", "-m", "house.examples", "--notebooks", env=ENV)


@nox.session(name="examples-all", venv_params=WITHOUT_PIP)
def examples_all(session: nox.Session) -> None:
    """Every example."""
    see(session, site_of(base(session)), *(library(session, text) for text in EXAMPLES_NEED))
    session.install("-q", "--no-build-isolation", *editable("air-backend"), env=ENV)
    session.run("python", "-m", "house.examples", env=ENV)


@nox.session(name="examples-sim", venv_params=WITHOUT_PIP)
def examples_sim(session: nox.Session) -> None:
    """The examples that want air-sim."""
    install_beside_npu(session, *editable("air-backend", "air-sim"))
    session.run("python", "-m", "house.examples", "--sim", env=NPU_ENV)


@nox.session(tags=["ci"], venv_params=WITHOUT_PIP)
def ledger(session: nox.Session) -> None:
    """Every feature that docs/features.md calls shown has a test that passed in this run."""
    see(session, site_of(base(session)))
    session.run("python", "-m", "house.features", "--results", str(ROOT / ".nox" / "results"), env=ENV)
