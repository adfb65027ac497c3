"""File < environment < flags; every error names its place."""

from pathlib import Path

import pytest

from exporter.config.loading import ConfigError, dump_config, load_config
from exporter.config.policy import ledger_rules, ownership_policy
from exporter.config.schema import Config
from exporter.model.ledger import LedgerRules
from exporter.model.policy import OwnerSource, PriceBook, PriceRule, WorkloadClass


def _file(folder: Path, text: str) -> Path:
    path = folder / "config.yaml"
    path.write_text(text)
    return path


def _refused(path: Path | None, environ: dict[str, str] | None = None, *overrides: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load_config(path, environ or {}, overrides)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_without_anything_the_defaults_hold() -> None:
    """The contract's defaults."""
    config = load_config(None, {})
    assert config.interval == 5.0
    assert config.max_age == 60.0
    assert str(config.listen) == ":9836"
    assert config.nvml.library == "libnvidia-ml.so.1"
    assert config.ownership.team.keys == ("team", "finops.org/team", "app.kubernetes.io/team", "squad")
    assert config.ownership.precedence == tuple(OwnerSource)


def test_effective_configuration_reads_back_the_same(tmp_path: Path) -> None:
    """What check-config prints is a configuration file."""
    config = load_config(None, {}, ["interval=2s", "ownership.extra_labels=[{name: project, keys: [project]}]"])
    assert load_config(_file(tmp_path, dump_config(config)), {}) == config


def test_flag_beats_environment_beats_file(tmp_path: Path) -> None:
    """The nearer to the command line, the stronger."""
    path = _file(tmp_path, "interval: 1s\nmax_age: 10s\nnvml: {library: from-file}\n")
    environ = {"GPU_OWNERSHIP_INTERVAL": "2s", "GPU_OWNERSHIP_NVML__LIBRARY": "from-env"}
    config = load_config(path, environ, ["interval=3s"])
    assert (config.interval, config.nvml.library, config.max_age) == (3.0, "from-env", 10.0)


def test_variables_that_kubernetes_makes_up_for_a_service_are_no_settings() -> None:
    """A Service called gpu-ownership-exporter must not stop the exporter."""
    environ = {
        "GPU_OWNERSHIP_EXPORTER_PORT": "tcp://10.0.0.1:9836",
        "GPU_OWNERSHIP_EXPORTER_SERVICE_HOST": "10.0.0.1",
        "GPU_OWNERSHIP_SERVICE_HOST": "10.0.0.1",
        "GPU_OWNERSHIP_SERVICE_PORT": "80",
        "GPU_OWNERSHIP_SERVICE_PORT_HTTP": "80",
        "GPU_OWNERSHIP_PORT": "tcp://10.0.0.1:80",
        "GPU_OWNERSHIP_PORT_80_TCP_ADDR": "10.0.0.1",
    }
    assert load_config(None, environ) == load_config(None, {})


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("interval: 5s\nnvml:\n  libary: x\n", "config.yaml:3: nvml.libary: unknown key, the nearest is library"),
        ("interval: 20s\n", "config.yaml:1: interval: "),
        ("interval: 5\n", "a duration with its unit is wanted"),
        ("zzzzzz: 1\n", "config.yaml:1: zzzzzz: unknown key, known here: "),
        ("a: 1\na: 2\n", "config.yaml:2: a: this key stands here twice"),
        ("- 1\n", "config.yaml:1: settings by key are wanted"),
        ("a: [1\n", "config.yaml:2: "),
        ("a: !!python/object:os.system x\n", "config.yaml:1: "),
        ("ownership:\n  extra_labels:\n  - {name: team, keys: [x]}\n", "config.yaml:3: ownership.extra_labels[0].name: "),
        ("ownership:\n  extra_labels:\n  - {name: a, keys: [x]}\n  - {name: a, keys: [y]}\n", "a label name stands here twice"),
        ("classes:\n- {class: foo, when: {label_exists: [a]}}\n", "config.yaml:2: classes[0].class: "),
        ("classes:\n- {class: other, when: {}}\n", "a condition is wanted"),
        ("ownership: {team: {keyz: [a]}}\n", "config.yaml:1: ownership.team.keyz: unknown key, the nearest is keys"),
        ("nvml: 5\n", "config.yaml:1: nvml: "),
        ("node_name: \x00\n", "config.yaml: "),
        ("interval: 9999999999d\n", "config.yaml:1: interval: a shorter duration is wanted"),
        ("ownership: &a\n  team: *a\n", "config.yaml:2: aliases are not used here"),
        ("1: 2\n", "config.yaml:1: 1: a key is a word"),
        ("true: 2\n", "config.yaml:1: true: a key is a word"),
        ("[" * 5000 + "]" * 5000, "config.yaml: nested too deeply"),
        ("ownership: {team: {aliases: {blue: [red], green: [red]}}}\n", "'red' is folded into two values"),
        ("ownership: {unowned: unknown}\n", "unowned and unknown have to differ"),
        ("ownership: {precedence: []}\n", "config.yaml:1: ownership.precedence: "),
        ("ownership: {team: {keys: []}}\n", "config.yaml:1: ownership.team.keys: "),
        ("kubernetes: {api_server: foo}\n", "config.yaml:1: kubernetes.api_server: "),
        ("nvml: {gpm: on}\n", "config.yaml:1: nvml.gpm: Input should be 'auto' or 'off'"),
        ("nvml: {accounting: 0}\n", "config.yaml:1: nvml.accounting: Input should be 'auto' or 'off'"),
        ("ledger: {birth_hold: 2h}\n", "config.yaml:1: ledger.birth_hold: "),
        ("ledger: {birth_hold: 30}\n", "a duration with its unit is wanted"),
        ("ledger: {ended_retention: 2d}\n", "config.yaml:1: ledger.ended_retention: "),
        ("ledger: {ended_retention: 10m, owner_retention: 5m}\n", "owner_retention has to be at least as long"),
        ("ledger: {state_file: state.json}\n", "config.yaml:1: ledger.state_file: "),
        ("ledger: {state_file: /var/lib/exporter/}\n", "config.yaml:1: ledger.state_file: "),
        ('ledger: {state_file: "/a\\0b"}\n', "config.yaml:1: ledger.state_file: "),
        ("ledger: {sate_file: /a}\n", "unknown key, the nearest is state_file"),
        ("prices: {currency: usd}\n", "config.yaml:1: prices.currency: "),
        ("prices: {default: -1}\n", "config.yaml:1: prices.default: "),
        ("prices: {default: .inf}\n", "config.yaml:1: prices.default: "),
        ("prices: {default: true}\n", "config.yaml:1: prices.default: "),
        ("prices:\n  per_gpu_hour:\n  - {model: H100}\n", "config.yaml:3: prices.per_gpu_hour[0].price: Field required"),
        ("prices:\n  per_gpu_hour:\n  - {price: .nan}\n", "config.yaml:3: prices.per_gpu_hour[0].price: "),
        ("prices:\n  per_gpu_hour:\n  - {price: -0.5}\n", "config.yaml:3: prices.per_gpu_hour[0].price: "),
        ("prices:\n  per_gpu_hour:\n  - {price: 1, capacity: reserved}\n", "prices.per_gpu_hour[0].capacity: Input should be"),
        (
            "prices:\n  per_gpu_hour:\n  - {price: 1, zone: a}\n",
            "prices.per_gpu_hour[0].zone: unknown key, known here: capacity",
        ),
    ],
)
def test_file_that_cannot_be_used_is_refused_with_its_place(tmp_path: Path, text: str, wanted: str) -> None:
    """File, line, key, reason, and the nearest known key, in one line."""
    assert wanted in _refused(_file(tmp_path, text))


def test_unreadable_file_is_refused(tmp_path: Path) -> None:
    """No file, or a folder in its place."""
    assert "No such file" in _refused(tmp_path / "none.yaml")
    assert "Is a directory" in _refused(tmp_path)


def test_huge_file_is_refused(tmp_path: Path) -> None:
    """A configuration is small."""
    assert "larger than" in _refused(_file(tmp_path, "#" * (2 << 20)))


def test_unknown_variable_is_refused_with_its_name() -> None:
    """A misspelt variable is as wrong as a misspelt key."""
    message = _refused(None, {"GPU_OWNERSHIP_NVM__LIBRARY": "x"})
    assert message == "GPU_OWNERSHIP_NVM__LIBRARY: nvm: unknown key, the nearest is nvml"


def test_flag_that_is_no_setting_is_refused() -> None:
    """--set wants KEY=VALUE, and a key inside a value is no group."""
    assert "KEY=VALUE" in _refused(None, {}, "interval")
    assert "no group of settings" in _refused(None, {}, "node_name=x", "node_name.y=1")
    assert "no YAML" in _refused(None, {}, "interval=[")


def test_flag_that_the_user_typed_is_named_in_the_error() -> None:
    """Nobody who typed --listen has heard of --set listen."""
    assert _refused(None, {}, "listen=foo").startswith("--listen: listen: an address with its port is wanted")


def test_number_is_a_name_where_a_name_is_wanted() -> None:
    """A node called 123 and a cost centre 4711 are names."""
    config = load_config(None, {"GPU_OWNERSHIP_NODE_NAME": "123"}, ["ownership.cost_center.aliases={rnd: [4711]}"])
    assert config.node_name == "123"
    assert config.ownership.cost_center.aliases == {"rnd": ("4711",)}


def test_empty_file_is_the_defaults(tmp_path: Path) -> None:
    """A file of comments is a file."""
    assert load_config(_file(tmp_path, "# nothing\n"), {}) == Config()


def test_policy_carries_what_the_configuration_says(tmp_path: Path) -> None:
    """The pure rooms see the same keys, aliases and classes."""
    path = _file(
        tmp_path,
        "ownership:\n  team: {keys: [squad], normalize: lower, aliases: {ml-infra: [ML-Infra, mlinfra]}}\n"
        "  extra_labels: [{name: project, keys: [proj]}]\n  precedence: [namespace_label]\n"
        "classes: [{class: training, when: {label_exists: [train]}}]\n",
    )
    policy = ownership_policy(load_config(path, {}))
    assert policy.team.keys == ("squad",)
    assert policy.team.lower
    assert policy.team.aliases == {"ML-Infra": "ml-infra", "mlinfra": "ml-infra"}
    assert policy.precedence == (OwnerSource.NAMESPACE_LABEL,)
    assert [field.name for field in policy.fields] == ["team", "cost_center", "project"]
    assert policy.classes[0].workload_class is WorkloadClass.TRAINING


def test_bare_word_off_is_off(tmp_path: Path) -> None:
    """YAML reads it as false, and nobody who writes it means that."""
    config = load_config(_file(tmp_path, "nvml: {gpm: off, accounting: auto}\n"), {})
    assert (config.nvml.gpm, config.nvml.accounting) == ("off", "auto")
    assert load_config(None, {"GPU_OWNERSHIP_NVML__ACCOUNTING": "off"}).nvml.accounting == "off"
    assert load_config(_file(tmp_path, dump_config(config)), {}) == config


def test_rules_of_the_ledger_are_those_of_the_configuration(tmp_path: Path) -> None:
    """Accounting sees the same durations; a hold of 0 publishes at once."""
    text = "activity: {active_above: 0.05}\nledger: {birth_hold: 0s, ended_retention: 1m, owner_retention: 2h, %s: false}\n"
    config = load_config(_file(tmp_path, text % "container_distribution"), {})
    assert ledger_rules(config) == LedgerRules(
        active_above_ratio=0.05,
        birth_hold_seconds=0.0,
        ended_retention_seconds=60.0,
        owner_retention_seconds=7200.0,
        container_distribution=False,
    )


def test_rules_of_the_defaults_are_the_contracts() -> None:
    """Without a file: half a minute, five minutes, a day, and no state file."""
    assert ledger_rules(Config()) == LedgerRules()
    assert Config().ledger.state_file == ""


def test_prices_reach_the_policy_in_their_order(tmp_path: Path) -> None:
    """The first that fits wins, so the order is part of what was configured."""
    text = (
        'prices:\n  currency: EUR\n  per_gpu_hour:\n  - {model: "NVIDIA H100*", capacity: spot, price: 1.20}\n'
        '  - {model: "NVIDIA H100*", region: "eu-*", price: 3}\n  - {instance_type: p5.48xlarge, price: 0}\n  default: 2.5\n'
    )
    assert ownership_policy(load_config(_file(tmp_path, text), {})).prices == PriceBook(
        currency="EUR",
        rules=(
            PriceRule(1.2, model="NVIDIA H100*", capacity="spot"),
            PriceRule(3.0, model="NVIDIA H100*", region="eu-*"),
            PriceRule(0.0, instance_type="p5.48xlarge"),
        ),
        default_per_gpu_hour=2.5,
    )


def test_without_prices_there_is_no_price(tmp_path: Path) -> None:
    """Nothing costs 0 because nobody said what it costs; null says the same in a file, a variable and a flag."""
    assert ownership_policy(Config()).prices == PriceBook()
    assert load_config(_file(tmp_path, "prices: {default: null}\n"), {"GPU_OWNERSHIP_PRICES__DEFAULT": "null"}) == Config()
    assert load_config(None, {}, ["prices.default=null"]) == Config()
    assert load_config(None, {"GPU_OWNERSHIP_PRICES__DEFAULT": "2"}).prices.default == 2.0
