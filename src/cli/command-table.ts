/**
 * Which file holds which commands. A file is loaded only when one of its commands is used: loading all of them takes
 * longer than most commands do.
 */
import type { Row } from './kit/row-type.ts'

export interface CommandFile {
  /** The names and aliases of its top-level commands. A test compares them with its rows. */
  readonly names: readonly string[]
  load(): Promise<readonly Row[]>
}

/** The files of all commands, by the title of their group, in the order of the help. */
export const commandFiles: Readonly<Record<string, readonly CommandFile[]>> = {
  'Server:': [
    {
      names: ['serve', 'backup', 'restore', 'status', 'openapi'],
      load: async () => (await import('./account/server.ts')).rows,
    },
    { names: ['login', 'logout', 'whoami'], load: async () => (await import('./account/login.ts')).rows },
    { names: ['accounts', 'profiles'], load: async () => (await import('./account/profile.ts')).rows },
    { names: ['completion'], load: async () => (await import('./kit/completion.ts')).rows },
  ],
  'Customers:': [
    { names: ['gpus'], load: async () => (await import('./rental/gpu.ts')).rows },
    { names: ['rent'], load: async () => (await import('./rental/rent.ts')).rows },
    { names: ['quote', 'reserve'], load: async () => (await import('./rental/quote.ts')).rows },
    { names: ['ls', 'rentals', 'show'], load: async () => (await import('./rental/rental.ts')).rows },
    { names: ['run', 'jobs'], load: async () => (await import('./rental/job.ts')).rows },
    { names: ['schedules'], load: async () => (await import('./rental/job-schedule.ts')).rows },
    { names: ['metrics'], load: async () => (await import('./rental/metrics.ts')).rows },
    {
      names: ['logs', 'ssh', 'terminal', 'exec'],
      load: async () => (await import('./rental/machine-session.ts')).rows,
    },
    { names: ['ssh-config', 'pools'], load: async () => (await import('./rental/ssh-config.ts')).rows },
    { names: ['cp'], load: async () => (await import('./rental/copy.ts')).rows },
    { names: ['ports', 'open', 'port-tokens'], load: async () => (await import('./rental/port.ts')).rows },
    { names: ['forward'], load: async () => (await import('./rental/forward.ts')).rows },
    { names: ['stop', 'start', 'reboot'], load: async () => (await import('./rental/power.ts')).rows },
    { names: ['set', 'terminate'], load: async () => (await import('./rental/rental-change.ts')).rows },
    { names: ['groups'], load: async () => (await import('./rental/group.ts')).rows },
    { names: ['secrets', 'registries'], load: async () => (await import('./account/secret.ts')).rows },
    { names: ['templates', 'export'], load: async () => (await import('./rental/template.ts')).rows },
    { names: ['deploy', 'deployments'], load: async () => (await import('./model/deployment.ts')).rows },
    { names: ['volumes'], load: async () => (await import('./rental/volume.ts')).rows },
    { names: ['chat'], load: async () => (await import('./model/chat.ts')).rows },
    { names: ['image', 'speak', 'embed'], load: async () => (await import('./model/media.ts')).rows },
    { names: ['transcribe'], load: async () => (await import('./model/transcribe.ts')).rows },
    { names: ['batches', 'batch'], load: async () => (await import('./model/batch.ts')).rows },
    { names: ['files', 'file'], load: async () => (await import('./model/file.ts')).rows },
    { names: ['catalog'], load: async () => (await import('./model/catalog.ts')).rows },
    { names: ['requests', 'cost'], load: async () => (await import('./model/request.ts')).rows },
    { names: ['usage'], load: async () => (await import('./billing/usage.ts')).rows },
    {
      names: ['balance', 'statement', 'billing', 'purchases', 'invoices'],
      load: async () => (await import('./billing/billing.ts')).rows,
    },
    { names: ['events'], load: async () => (await import('./account/event.ts')).rows },
    {
      names: ['account', 'members', 'keys', 'ssh-keys'],
      load: async () => (await import('./account/account.ts')).rows,
    },
    { names: ['budgets'], load: async () => (await import('./billing/budget.ts')).rows },
    { names: ['notifications'], load: async () => (await import('./account/notification.ts')).rows },
    { names: ['mcp'], load: async () => (await import('./account/mcp.ts')).rows },
    { names: ['webhooks'], load: async () => (await import('./account/webhook.ts')).rows },
  ],
  'Suppliers:': [
    { names: ['agent'], load: async () => (await import('./supply/agent.ts')).rows },
    { names: ['supply'], load: async () => (await import('./supply/supply.ts')).rows },
  ],
  'Operators:': [
    { names: ['operator'], load: loadOperator },
    { names: ['models'], load: async () => (await import('./model/model.ts')).rows },
    { names: ['ledger', 'audit'], load: async () => (await import('./operator/ledger.ts')).rows },
  ],
}

async function loadOperator(): Promise<readonly Row[]> {
  const files = await Promise.all([
    import('./operator/operator-account.ts'),
    import('./operator/operator-price.ts'),
    import('./operator/operator-fleet.ts'),
    import('./operator/operator-watch.ts'),
    import('./operator/operator-economics.ts'),
    import('./operator/operator-upstream.ts'),
    import('./operator/operator-mail.ts'),
    import('./operator/operator-payment.ts'),
    import('./operator/operator-payout.ts'),
    import('./operator/operator-person.ts'),
    import('./operator/operator-sso.ts'),
    import('./operator/operator-terms.ts'),
    import('./operator/operator-reseal.ts'),
  ])
  return files.flatMap(({ rows }) => rows)
}

/** The descriptions of commands that only group others. */
export const groupDescriptions: Readonly<Record<string, string>> = {
  gpus: 'GPUs you can rent',
  catalog: 'models you can call',
  batches: 'files of requests, answered within a day at the batch price',
  files: 'input and results of batches',
  requests: 'inference requests',
  purchases: 'payments and credits',
  invoices: 'invoices, one per month',
  accounts: 'accounts you are logged in to',
  profiles: 'servers you are logged in to',
  volumes: 'storage volumes, which outlive machines',
  groups: 'containers on several machines, with a private network',
  secrets: 'secrets that orders refer to',
  registries: 'logins for private image registries',
  templates: 'templates of orders',
  deployments: 'models on rented GPUs',
  jobs: 'commands that run once, and their results',
  schedules: 'jobs that run again and again',
  members: 'members of the account',
  keys: 'API keys of the account',
  'ssh-keys': 'SSH keys that are added to new machines',
  billing: 'show costs and statements',
  'billing payments': 'payments by card',
  'billing cards': 'cards saved at the payment processor',
  budgets: 'monthly budgets',
  notifications: 'notifications, and which of them come by email',
  'port-tokens': 'tokens for HTTP ports of machines',
  webhooks: 'webhooks, which receive events',
  agent: 'offer this machine for rent',
  supply: 'your machines: join tokens, hosts, prices and earnings',
  operator: 'accounts, money, prices, machines and the audit log',
  'supply tokens': 'join tokens',
  'supply hosts': 'your hosts',
  'supply machines': 'your machines',
  'supply payouts': 'payouts of your earnings',
  'operator accounts': 'accounts',
  'operator prices': 'the price book',
  'operator fleet': 'machines of all suppliers',
  'operator rentals': 'rentals of all accounts',
  'operator volumes': 'volumes of all accounts',
  'operator providers bills': 'bills of other clouds',
  'operator hosts': 'hosts with an agent, and bare metal reached over SSH',
  'operator images': 'images that virtual machines boot from',
  'operator upstreams': 'servers that run models',
  'operator mail': 'outgoing email',
  'operator people': 'people who sign in',
  'operator sso': 'providers at which people sign in',
  'members sso': 'the provider at which members sign in',
  models: 'models on sale',
  ledger: 'the ledger',
}

/** Other names of groups: those of OpenAI's command. */
export const groupAliases: Readonly<Record<string, string>> = { batches: 'batch', files: 'file' }
