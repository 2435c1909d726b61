"""What the ledger computes, as functions from DataFrame to DataFrame: no topic, no sink, no session.

Owns: what a purchase is and why one is rejected, when it is late, balances, alerts, sessions, and their JSON. Each
function works on streams and on tables (`balances` on streams, and in the unit tests of Spark's engine on tables).

A purchase is late when it arrived (the timestamp of its record) more than `LATENESS_DAYS` after it was made. Both times
lie in the record, so a replay finds the same. A late purchase counts in balances: no money is lost. It has no part in
sessions, which are closed by then.
"""

from typing import Any

from pyspark.sql import functions as f

from oncelog.pipeline.ledger.processor import BALANCE, INPUT, BalanceProcessor

LATENESS_DAYS = 45
SESSION_GAP_DAYS = 30
PURCHASE = "id string, customer string, at timestamp, cents bigint, late boolean"
_CORRUPT = "not_json"
_INPUT = f"id string, customer string, at string, amount string, {_CORRUPT} string"
_TIME = r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$"
_AMOUNT = r"^\d{1,13}\.\d\d$"


def checked(records: Any) -> Any:
    """Records of the source → the same and the columns of `PURCHASE`, and `reason`: null, or why it is rejected.

    A value is JSON: `{"id": "7", "customer": "00004", "at": "1997-01-18T00:00:00Z", "amount": "29.33"}`. The amount is
    text with two decimals: a JSON number would become a binary fraction on its way. Refunds are not purchases.
    """
    parsed = f.from_json(f.col("text"), _INPUT, {"columnNameOfCorruptRecord": _CORRUPT})
    at = f.when(f.col("json.at").rlike(_TIME), f.try_to_timestamp("json.at"))
    rules = (
        (f.col("value").isNull(), "no value"),
        (~f.is_valid_utf8(f.col("text")), "not UTF-8"),
        (f.col("json").isNull() | f.col(f"json.{_CORRUPT}").isNotNull(), "not a JSON object"),
        (f.coalesce(f.col("json.id"), f.lit("")) == "", "no id"),
        (f.coalesce(f.col("json.customer"), f.lit("")) == "", "no customer"),
        (at.isNull(), "at is not a time such as 1997-01-18T00:00:00Z"),
        (~f.coalesce(f.col("json.amount").rlike(_AMOUNT), f.lit(False)), "amount is not text such as 29.33"),
    )
    reason = f.coalesce(*(f.when(is_broken, sentence) for is_broken, sentence in rules))
    typed = records.withColumn("text", f.col("value").cast("string")).withColumn("json", parsed)
    return (
        typed.withColumns({"reason": reason, "id": f.col("json.id"), "customer": f.col("json.customer"), "at": at})
        .withColumn("cents", f.when(f.col("reason").isNull(), f.replace("json.amount", f.lit("."))).cast("bigint"))
        .withColumn("late", f.col("timestamp") > f.col("at") + f.make_dt_interval(f.lit(LATENESS_DAYS)))
        .drop("text", "json")
    )


def accepted(purchases: Any) -> Any:
    """Return the accepted rows of `checked` as `PURCHASE`."""
    return purchases.where("reason is null").select("id", "customer", "at", "cents", "late")


def balances(purchases: Any) -> Any:
    """Return the new balance of each customer of a batch, and the levels it reached: `PURCHASE` in, `BALANCE` out.

    `timeMode="None"`: with event time, Spark drops rows behind the watermark before the processor can see them.
    """
    return (
        # `to`: in a declarative pipeline transformWithState may not ask which columns there are.
        purchases.to(INPUT)
        .groupBy("customer")
        .transformWithState(BalanceProcessor(), BALANCE, outputMode="Append", timeMode="None")
    )


def sessions(purchases: Any) -> Any:
    """Return `customer, opened, closed, cents, purchases` of each session that has seen no purchase for the gap.

    A session is returned when the watermark has passed its end: `LATENESS_DAYS` behind the newest purchase.
    """
    window = f.session_window("at", f"{SESSION_GAP_DAYS} days")
    return (
        purchases.where("not late")
        .withWatermark("at", f"{LATENESS_DAYS} days")
        .groupBy("customer", window)
        .agg(f.sum("cents").alias("cents"), f.count("*").alias("purchases"))
        .select(
            "customer",
            f.col("session_window.start").alias("opened"),
            f.col("session_window.end").alias("closed"),
            "cents",
            "purchases",
        )
    )
