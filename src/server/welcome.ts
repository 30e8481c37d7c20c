/** The text printed after a start: the URL, and commands to try next, ready to paste. */
import path from 'node:path'
import { DEMO_KEY, DEMO_SSH_KEY, OPERATOR_KEY } from './data/first-run.ts'
import { demoLinkUrl } from './console/demo-link.ts'
import type { NewAccounts } from './parts/set-up.ts'
import { isLoopback, type SettingName, type Settings } from './settings.ts'

export interface Started {
  readonly url: string
  readonly settings: Pick<
    Settings,
    'dataDir' | 'defaultModels' | 'drivers' | 'localEngines' | 'host' | 'trustedProxy' | 'publicUrl' | 'databaseUrl'
  >
  readonly newAccounts: NewAccounts
  /** undefined: there is no demo account to link to. */
  readonly demoLinkToken: string | undefined
  readonly tookMs: number
}

export function welcome({ url, settings, newAccounts, demoLinkToken, tookMs }: Started): string {
  const dataDir = shownFolder(settings.dataDir)
  const isSimulated = settings.drivers.includes('mock')
  const hasChatModel = settings.defaultModels === 'all' && settings.localEngines
  const lines = [
    `Berth is ready at ${url} (${(tookMs / 1_000).toFixed(1)} s).`,
    ...warningsFor(settings),
    ...(demoLinkToken === undefined
      ? ['Open it in a browser to sign in with an API key.']
      : [
          'Open this link in a browser to try the demo account. It works once, for 24 hours:',
          `  ${demoLinkUrl(url, demoLinkToken)}`,
        ]),
    `The API reference is at ${url}/docs.`,
  ]
  if (newAccounts.operator) lines.push(`The operator's key is in ${dataDir}/${OPERATOR_KEY}.`)
  if (newAccounts.demo) {
    lines.push(
      `A demo account with $20,000 of demo credit is ready: its API key is in ${dataDir}/${DEMO_KEY}, its SSH key in ${dataDir}/${DEMO_SSH_KEY}.`,
      isSimulated
        ? 'Its machines are simulated. To add this machine as a real one that you can log in to (needs Docker), run:'
        : 'There are no machines to rent yet. To add this one (needs Docker; its GPUs are simulated), run:',
      '  npx berth agent run --simulate-gpus rtx4090:2',
      hasChatModel ? 'The chat model (323 MB) is downloading and answers 503 until it is ready. Try:' : 'Try:',
      '',
      `  export BERTH_URL=${url} BERTH_KEY=$(cat ${dataDir}/${DEMO_KEY})`,
      '  curl -s $BERTH_URL/billing/get_current_balance -H "Authorization: Bearer $BERTH_KEY"',
      ...(hasChatModel ? chatExample : []),
      ...(isSimulated ? rentalExample : []),
      '',
    )
  }
  lines.push('Press Ctrl-C to stop. All data is kept for the next start.')
  return `${lines.join('\n')}\n`
}

function warningsFor({ host, trustedProxy, publicUrl, databaseUrl, dataDir }: Started['settings']): string[] {
  const warnings: string[] = []
  if (publicUrl?.startsWith('https:') === true && trustedProxy === undefined) {
    warnings.push(
      'WARNING: BERTH_PUBLIC_URL is an address of a proxy, but BERTH_TRUST_PROXY is not set. Cookies are not marked Secure, and',
      '  limits count all people as one client (docs/operator/servers.md, "Behind a proxy").',
    )
  }
  if (isLoopback(host)) return warnings
  if (trustedProxy === undefined) {
    warnings.push(
      `WARNING: Berth listens on ${host} without TLS, so API keys can be read in transit. Put a TLS proxy in front`,
      '  (docs/operator/servers.md, "Behind a proxy") and set BERTH_TRUST_PROXY, or listen on BERTH_HOST=127.0.0.1.',
    )
  }
  if (databaseUrl === undefined) {
    warnings.push(
      `WARNING: This server has a demo account with simulated money and is reachable from other machines. Keep`,
      `  ${shownFolder(dataDir)}/${DEMO_KEY} secret, or suspend the account:\n    berth operator accounts set demo --suspend --reason "not needed"`,
    )
  }
  return warnings
}

/** Relative to the working directory when inside it. */
export function shownFolder(dataDir: string): string {
  const folder = path.relative(process.cwd(), dataDir)
  return folder === '' || folder.startsWith('..') ? dataDir : folder
}

const rentalExample = [
  `  curl -s $BERTH_URL/v2/alpha/on-demand/virtual-machine-rentals -H "Authorization: Bearer $BERTH_KEY" \\`,
  `    -H 'Content-Type: application/json' -d '{"gpuCount": 1, "region": "mock-region"}'`,
  '  curl -s $BERTH_URL/v2/alpha/on-demand/virtual-machine-rentals -H "Authorization: Bearer $BERTH_KEY"',
]

const chatExample = [
  `  curl -s $BERTH_URL/v1/chat/completions -H "Authorization: Bearer $BERTH_KEY" -H 'Content-Type: application/json' \\`,
  `    -d '{"model": "tinyllama-1.1b-chat", "max_tokens": 40, "messages": [{"role": "user", "content": "Hello"}]}'`,
]

/** The type makes sure that no setting is missing. */
const settings: Readonly<Record<SettingName, string>> = {
  BERTH_HOST: 'address to listen on (127.0.0.1)',
  BERTH_PORT: 'port to listen on (8420)',
  BERTH_DATA_DIR: 'folder for keys, journal, models and the embedded PostgreSQL (.berth)',
  DATABASE_URL: 'PostgreSQL 15 or newer to use instead of the embedded one',
  BERTH_DATABASE_CONNECTIONS: 'size of the database connection pool (20)',
  BERTH_DRIVERS: 'drivers that offer machines (mock,host,private-cloud; no mock with DATABASE_URL)',
  BERTH_RELAY_HOST: 'address that relays ports to machines on joined hosts (BERTH_HOST)',
  BERTH_RELAY_PUBLIC_HOST: 'public name of that address, shown to customers (the address, or the host name)',
  BERTH_RELAY_PORTS: 'port range of the relay (20000-29999)',
  BERTH_PEER_PORT: 'port for other servers over the same database (none: they cannot reach the hosts connected here)',
  BERTH_PEER_HOST: 'address of this server for the others (BERTH_HOST, or the host name)',
  BERTH_APPS_DOMAIN: 'domain for HTTP ports of machines, such as apps.example.com (localhost on loopback, or none)',
  BERTH_SELL_SIMULATED: 'sell virtual machines with simulated GPUs (true; false with DATABASE_URL)',
  BERTH_INVENTORY: 'file with bare-metal hosts, read at startup',
  BERTH_KUBERNETES: 'file with Kubernetes clusters, read at startup',
  BERTH_STORAGE_DIR: 'folder of the file server for bare-metal volumes (none: no file server)',
  BERTH_STORAGE_VIP: 'address of the file server',
  BERTH_FREE_START_MINUTES: 'free GPU-minutes for starts of replicas, per account and day (120)',
  BERTH_STORAGE_OVERCOMMIT: 'overcommit factor for volume space (1)',
  BERTH_STOPPED_DISK_USD_PER_GB_MONTH: 'price of the disks of stopped rentals, per GB and month (0.10)',
  BERTH_CPU_USD_PER_HOUR: 'price of a CPU of a rental that runs without its GPUs (0.02)',
  BERTH_SECRET_KEY: 'encrypts stored secrets; must be the same on every server (secret.key in the data folder)',
  BERTH_SECRET_KEY_OTHERS: 'other secret keys that are accepted while the key changes, separated by commas (none)',
  BERTH_LOG_LEVEL: 'fatal, error, warn, info, debug, trace or silent (warn)',
  BERTH_METRICS_PORT: 'also serve /metrics, without authentication, on this loopback port',
  BERTH_RESPONSE_DAYS: 'days to store responses of /v1/responses (30)',
  BERTH_REQUEST_DAYS: 'days to keep the request log and per-request costs; daily totals are kept (400)',
  BERTH_DRAIN_SECONDS: 'on SIGTERM, seconds to keep serving while /readyz answers 503 (5; 0 on loopback)',
  BERTH_FINISH_SECONDS: 'after that, seconds for requests in progress to end (8)',
  BERTH_TRUST_PROXY: 'number or addresses of proxies whose X-Forwarded-For is trusted (0)',
  BERTH_BODY_MEMORY_MB: 'memory for request bodies in flight (512)',
  BERTH_BODY_MEMORY_PER_ACCOUNT_MB: 'share of that memory for one account (128)',
  BERTH_PUBLIC_URL: 'address of this server in links, needed for sign-in by people (the address it listens on)',
  BERTH_SIGN_UP: 'who may open an account: closed, invited or open (closed)',
  BERTH_STRIPE_KEY: 'secret key of Stripe for payments by card; needs BERTH_PUBLIC_URL (none: operators add money)',
  BERTH_STRIPE_WEBHOOK_SECRETS: 'signing secrets of the webhook at /stripe/webhook, separated by commas (none)',
  BERTH_STRIPE_URL: 'address of the API of Stripe (https://api.stripe.com)',
  BERTH_PAYOUT_HOLDBACK_DAYS: 'days after which earnings of suppliers are paid out (14)',
  BERTH_PAYOUT_MIN_USD: 'the smallest payout to a supplier (50)',
  BERTH_PAYOUT_WEEKDAY: 'day on which a payout run is drafted, or off (monday)',
  BERTH_PAYOUT_NAME: 'holder of the account that bank files are paid from; needs BERTH_PAYOUT_IBAN (none: CSV only)',
  BERTH_PAYOUT_IBAN: 'IBAN of that account',
  BERTH_PAYOUT_BIC: 'BIC of that account (none)',
  BERTH_SMTP_URL: 'mail server, such as smtp://user:password@mail.example.com:587 (none: no e-mail)',
  BERTH_MAIL_FROM: 'sender of e-mails, such as Berth <berth@example.com>',
  BERTH_ALLOW_PRIVATE_ADDRESSES: 'allow private addresses and plain HTTP for webhooks and downloads (false)',
  BERTH_ROLE: 'all, or gateway: answer requests but run no background loops (all)',
  BERTH_FIRST_TOKEN_SECONDS: 'how long a request for text may wait for a free slot',
  BERTH_WORKERS: 'processes that answer chat requests; set it to the number of cores (1: only the server itself)',
  BERTH_DEFAULT_MODELS: 'models that the first start adds: all, embedded (none that needs a download) or none (all)',
  BERTH_LOCAL_ENGINES: 'run models on this server (true)',
  BERTH_CATALOG: 'file or URL with the model catalog (the built-in one)',
  BERTH_MODEL_STORE_GB: 'disk space for downloaded models (50)',
  BERTH_NPM_REGISTRY: 'registry for npm: model files (the registry npm is configured with)',
  BERTH_HUB_URL: 'hub for hf: model files (not set: rejected)',
  BERTH_HUB_TOKEN: 'token for that hub',
  BERTH_S3_URL: 'S3-compatible object store for weights and files, such as https://s3.example.com (none)',
  BERTH_S3_REGION: 'region of that store (us-east-1)',
  BERTH_S3_ACCESS_KEY: 'access key of that store',
  BERTH_S3_SECRET_KEY: 'secret key of that store',
  BERTH_S3_BUCKET: 'bucket of that store for the files of customers (none: the database)',
  BERTH_ENGINE_DIR: 'folder of the built engines, for the image berth/engine (beside the server)',
  BERTH_MOCK_BOOT_MS: 'time a simulated machine takes to start (6000)',
  BERTH_MOCK_OFFERS: 'let the simulated driver offer elastic capacity, like a cloud (false)',
  BERTH_MOCK_SCALE: 'copies of the simulated fleet (1)',
  BERTH_MOCK_DESTROY_MS: 'time a simulated machine takes to stop (3000)',
}

export function usage(): string {
  const width = Math.max(...Object.keys(settings).map((name) => name.length))
  const rows = Object.entries(settings).map(([name, meaning]) => `  ${name.padEnd(width)}  ${meaning}`)
  return [
    'Usage: berth serve [--new-operator-key] [--new-secret-key] [--migrate-only]',
    '',
    'Starts a Berth server. --new-operator-key creates a new operator key if you have lost yours. --new-secret-key',
    'replaces the secret key in the data folder; run berth operator reseal after that. --migrate-only upgrades the',
    'database at DATABASE_URL for this version and exits.',
    'Settings are read from the environment (defaults in parentheses):',
    '',
    ...rows,
    '',
  ].join('\n')
}
