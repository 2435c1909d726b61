"""Every API with every version that ApiVersions lists."""

from oncelog.broker.apis.table import API_TABLE

EVERY_VERSION = [(api, version) for api in API_TABLE.values() for version in range(api.minimum, api.maximum + 1)]
