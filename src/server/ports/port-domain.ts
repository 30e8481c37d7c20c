/**
 * The names of HTTP ports: `https://<rental>-<port>.<domain>`. The name is one label, so that one wildcard certificate
 * covers all of them, and a separate host, so that every application has its own origin and cookies. On a laptop the
 * domain is `localhost`: browsers resolve every name below it to this machine.
 */
export interface PortDomain {
  readonly name: string
  readonly protocol: 'http' | 'https'
  /** The port in URLs. undefined: the default of the protocol. `own`: the port that this server listens on. */
  readonly port: number | 'own' | undefined
}

/** The rental and port that a host name stands for. */
export interface PortName {
  readonly rentalName: string
  readonly port: number
}

const SETTING = /^(?:(https?):\/\/)?((?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.)*[a-z0-9-]+)(?::(\d{1,5}))?$/
const MAX_DOMAIN_CHARS = 180

export const PORT_DOMAIN_HELP = 'must be a domain such as apps.example.com, with http:// before it if it has no TLS'

/** undefined: not a domain. */
export function readPortDomain(text: string): PortDomain | undefined {
  const [, protocol = 'https', name, port] = SETTING.exec(text.toLowerCase()) ?? []
  if (name === undefined || name.length > MAX_DOMAIN_CHARS || Number(port ?? 1) > 65_535) return undefined
  return { name, protocol: protocol as PortDomain['protocol'], port: port === undefined ? undefined : Number(port) }
}

/** The domain of a server that only its own machine can reach. */
export const localPortDomain: PortDomain = { name: 'localhost', protocol: 'http', port: 'own' }

export function portUrl(domain: PortDomain, { rentalName, port }: PortName, ownPort: number): string {
  const publicPort = domain.port === 'own' ? ownPort : domain.port
  return `${domain.protocol}://${rentalName}-${port}.${domain.name}${publicPort === undefined ? '' : `:${publicPort}`}`
}

/**
 * Returns the port that a Host header names. `unknown`: below the domain, but not the name of a port. undefined: the
 * API and the console. Below `localhost` there may be other names for this server, so only names of ports count there.
 */
export function readPortHost(
  domain: PortDomain | undefined,
  host: string | undefined,
): PortName | 'unknown' | undefined {
  if (domain === undefined || host === undefined) return undefined
  const name = host.toLowerCase().replace(/\.?(:\d*)?$/, '')
  if (!name.endsWith(`.${domain.name}`)) return undefined
  const label = name.slice(0, -domain.name.length - 1)
  const [, rentalName, port] = /^([a-z0-9][a-z0-9-]*)-([1-9]\d{0,4})$/.exec(label) ?? []
  if (rentalName !== undefined && port !== undefined) return { rentalName, port: Number.parseInt(port, 10) }
  return domain.name === 'localhost' ? undefined : 'unknown'
}
