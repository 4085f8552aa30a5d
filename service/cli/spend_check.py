"""What `rondo doctor` says of the caps on spending."""

from __future__ import annotations

from service.cli.daemon.daemon_client import Daemon
from service.cli.daemon.daemon_errors import DaemonError
from service.cli.daemon.stream_items import read_as
from service.cli.doctor_checks import Finding
from service.cli.views.usage_tables import caps_in_words, used_up
from service.config import LLMSettings, Settings
from service.domain.usage import UsageReport

_NO_CAPS = "no caps on spending (spend.daily_tokens, spend.daily_cost, …)"


def check_spend(settings: Settings) -> Finding:
    """How far the caps are used up, and whether what they need is set."""
    report = _of_daemon(settings)
    if report is None or report.spend is None:
        return _as_set(settings)
    lines = caps_in_words(report.spend, report.currency)
    if (period := used_up(report.spend)) is not None:
        until = f"{period.until.astimezone():%Y-%m-%d %H:%M}"
        advice = f"It is free again on {until}; or raise spend.*, and restart the daemon."
        return Finding("note", "; ".join(lines), f"No model is asked. {advice}")
    return Finding("ok", "; ".join(lines) or _NO_CAPS)


def _as_set(settings: Settings) -> Finding:
    """What would hold, where there is no daemon."""
    if (name := _without_prices(settings)) is not None:
        return Finding(
            "broken",
            f"a cap is in money, but {name} has no prices: the daemon does not start so",
            "Set its prices (0 where it costs nothing), or use spend.daily_tokens and"
            " spend.monthly_tokens.",
        )
    caps = settings.spend.model_dump(exclude_none=True).items()
    return Finding("ok", ", ".join(f"{name} is {value:,}" for name, value in caps) or _NO_CAPS)


def _without_prices(settings: Settings) -> str | None:
    """A model of which nobody knows what it costs, though a cap is in money."""
    spend = settings.spend
    if spend.daily_cost is None and spend.monthly_cost is None:
        return None
    models: dict[str, LLMSettings] = {"llm": settings.llm}
    models |= {f"models.{name}": settings.of_model(name) for name in settings.models}
    for name, model in models.items():
        if model.prices.input is None and model.effective_provider != "embedded":
            return name
    return None


def _of_daemon(settings: Settings) -> UsageReport | None:
    with Daemon(settings) as daemon:
        try:
            return read_as(UsageReport, daemon.get("/v1/usage", {"limit": 1}))
        except DaemonError:
            return None  # the check of the daemon tells
