"""DescribeConfigs (32): request and response.

KIPs: 133 (configs by API), 226 (synonyms), 569 (documentation and types).
"""

from oncelog.protocol.schema import ArrayOf, Field, Schema, Structure
from oncelog.protocol.types import Boolean, Int8, Int16, Int32, String

# Version 0 was removed in Apache Kafka 4.0, Version 1 is the new baseline.
# Version 1 adds IncludeSynonyms and removes IsDefault.
# Version 2 is the same as version 1.
# Version 4 enables flexible versions.
DESCRIBE_CONFIGS_REQUEST = Schema(
    "DescribeConfigsRequest",
    api_key=32,
    versions="1-4",
    flexible="4+",
    fields=(
        Field(
            "resources",
            ArrayOf(
                Structure(
                    "DescribeConfigsResource",
                    Field("resource_type", Int8),
                    Field("resource_name", String),
                    Field("configuration_keys", ArrayOf(String), nullable="0+"),
                )
            ),
        ),
        Field("include_synonyms", Boolean, "1+", default=False),
        Field("include_documentation", Boolean, "3+", default=False),
    ),
)

# Version 0 was removed in Apache Kafka 4.0, Version 1 is the new baseline.
# Version 1 adds ConfigSource and the synonyms.
# Starting in version 2, on quota violation, brokers send out responses before throttling.
# Version 4 enables flexible versions.
DESCRIBE_CONFIGS_RESPONSE = Schema(
    "DescribeConfigsResponse",
    api_key=32,
    versions="1-4",
    flexible="4+",
    fields=(
        Field("throttle_time_ms", Int32),
        Field(
            "results",
            ArrayOf(
                Structure(
                    "DescribeConfigsResult",
                    Field("error_code", Int16),
                    Field("error_message", String, nullable="0+"),
                    Field("resource_type", Int8),
                    Field("resource_name", String),
                    Field(
                        "configs",
                        ArrayOf(
                            Structure(
                                "DescribeConfigsResourceResult",
                                Field("name", String),
                                Field("value", String, nullable="0+"),
                                Field("read_only", Boolean),
                                Field("config_source", Int8, "1+", default=-1),
                                Field("is_sensitive", Boolean),
                                Field(
                                    "synonyms",
                                    ArrayOf(
                                        Structure(
                                            "DescribeConfigsSynonym",
                                            Field("name", String, "1+"),
                                            Field("value", String, "1+", nullable="0+"),
                                            Field("source", Int8, "1+"),
                                        )
                                    ),
                                    "1+",
                                ),
                                Field("config_type", Int8, "3+", default=0),
                                Field("documentation", String, "3+", nullable="0+"),
                            )
                        ),
                    ),
                )
            ),
        ),
    ),
)
