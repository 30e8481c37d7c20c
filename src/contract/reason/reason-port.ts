/** Reasons about HTTP ports of rentals. */
import { conflict, invalid, notFound, unavailable } from './reason-entry.ts'

type Port = { readonly port: number }

export const portReasons = {
  app_not_found: notFound(
    'There is nothing here, or you have no access to it.',
    'Open the port from the page of its rental in the console, or send a token for it.',
  ),
  app_not_running: {
    ...unavailable(
      ({ name, status }: { readonly name: string; readonly status: string }) => `${name} is ${status}, not Running.`,
      'Start it, or wait until it is running.',
    ),
    status: 503,
  },
  port_not_answering: {
    ...unavailable(
      ({ port }: Port) => `Nothing answers on port ${port} of the machine.`,
      'Start the application, and make sure it listens on 0.0.0.0, not 127.0.0.1.',
    ),
    status: 502,
  },
  port_not_http: {
    ...unavailable(
      ({ port }: Port) => `The application on port ${port} does not answer with HTTP.`,
      'HTTP ports speak HTTP/1.1 without TLS. For anything else, use a TCP port.',
    ),
    status: 502,
  },
  port_timeout: {
    ...unavailable(
      ({ port, seconds }: Port & { readonly seconds: number }) =>
        `The application on port ${port} did not answer within ${seconds} seconds.`,
    ),
    status: 504,
  },
  too_many_port_connections: unavailable(
    'This machine has too many open connections.',
    'Close some of them, or try again in a moment.',
  ),
  port_not_forwarded: conflict(
    'HTTP ports of this machine are not forwarded: it has an address of its own.',
    'Connect to that address.',
  ),
  port_not_found: notFound(
    ({ port }: Port) => `The rental has no HTTP port ${port}.`,
    'HTTP ports are part of the order, such as `8888/http`.',
  ),
  no_apps_domain: conflict(
    'This server has no domain for HTTP ports.',
    'Ask the operator to set BERTH_APPS_DOMAIN, or use SSH port forwarding.',
  ),
  port_token_not_found: notFound('Token not found.'),
  too_many_port_tokens: conflict(
    ({ max }: { readonly max: number }) => `A port can have at most ${max} tokens.`,
    'Revoke one that is no longer used.',
  ),
  udp_not_supported: invalid(
    ({ port }: Port) => `Port ${port} cannot use UDP: machines are reached through connections that carry TCP only.`,
    'Use tcp or http.',
  ),
} as const
