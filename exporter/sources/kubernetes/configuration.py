"""Where the API server is and who we are: a kubeconfig, an address, or the service account of our own pod.

Loading and authentication are the official client's; this module chooses and names what is missing. It never looks for a
kubeconfig that nobody configured: an exporter on a node must not talk to the cluster of whoever is logged in there. The way is
direct, or through the proxy that a kubeconfig names: the environment's proxies are for other traffic, and NO_PROXY with address
ranges, as clusters have it, is not understood by Python.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

import yaml
from kubernetes.aio.client.api_client import ApiClient
from kubernetes.aio.client.configuration import Configuration
from kubernetes.aio.config.config_exception import ConfigException
from kubernetes.aio.config.incluster_config import SERVICE_CERT_FILENAME, SERVICE_TOKEN_FILENAME, InClusterConfigLoader
from kubernetes.aio.config.kube_config import load_kube_config

from exporter.model.reading import MissingReason
from exporter.sources.kubernetes.failures import RequestFailed

# A kubeconfig of any shape: the loader indexes into it without looking.
_BROKEN_KUBECONFIG = (ConfigException, OSError, yaml.YAMLError, LookupError, TypeError, ValueError, AttributeError)


@dataclass(frozen=True, slots=True)
class ServiceAccount:
    """Where a pod finds its own account."""

    token_file: str = SERVICE_TOKEN_FILENAME
    certificate_file: str = SERVICE_CERT_FILENAME
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    """Holds KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT in a pod."""


async def load_client(api_server: str, kubeconfig: str, account: ServiceAccount) -> ApiClient:
    """Make a client; fails with NO_CONFIGURATION, whose detail says what is missing.

    An address beside a kubeconfig replaces the address in it. An https address alone goes with the service account where there
    is one; a plain http address never gets a token.
    """
    configuration = Configuration(client_session_kwargs={"trust_env": False})
    try:
        if kubeconfig:
            await load_kube_config(kubeconfig, client_configuration=configuration, persist_config=False)
            if api_server:
                configuration.host = api_server.rstrip("/")
        elif api_server:
            _use_address(configuration, api_server.rstrip("/"), account)
        else:
            InClusterConfigLoader(account.token_file, account.certificate_file, environ=account.environ).load_and_set(
                configuration
            )
        return ApiClient(configuration)
    except _BROKEN_KUBECONFIG as error:
        # The loader's own messages may quote the file: only their kind is passed on, apart from the one that names a path.
        place = kubeconfig or f"service account of this pod ({account.token_file})"
        raise RequestFailed(MissingReason.NO_CONFIGURATION, f"{place}: {type(error).__name__}") from error


def _use_address(configuration: Configuration, address: str, account: ServiceAccount) -> None:
    if address.startswith("https://") and os.path.isfile(account.token_file):  # noqa: PTH113 - the client's constants are strings
        loader = InClusterConfigLoader(
            account.token_file,
            account.certificate_file,
            environ={"KUBERNETES_SERVICE_HOST": "replaced", "KUBERNETES_SERVICE_PORT": "443"},
        )
        loader.load_and_set(configuration)
        # The loader sets its host again with each refresh of the token.
        loader.host = address
    configuration.host = address
