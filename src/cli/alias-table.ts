/**
 * Words that people type by habit from other command lines, and what they are called here. They work, but no help lists
 * them. A word that stands for nothing here gets a sentence that says what to do instead.
 */

/** First words of a command line. */
export const commandAliases: Readonly<Record<string, string>> = {
  list: 'ls',
  ps: 'ls',
  rm: 'terminate',
  delete: 'terminate',
  destroy: 'terminate',
  remove: 'terminate',
  restart: 'reboot',
  search: 'gpus ls',
  costs: 'billing costs',
  'port-forward': 'forward',
  proxy: 'forward',
  scp: 'cp',
  shell: 'ssh',
  change: 'set',
  gpu: 'gpus',
  volume: 'volumes',
  template: 'templates',
  secret: 'secrets',
  registry: 'registries',
  deployment: 'deployments',
  job: 'jobs',
  schedule: 'schedules',
  group: 'groups',
  request: 'requests',
  member: 'members',
  key: 'keys',
  'ssh-key': 'ssh-keys',
  budget: 'budgets',
  invoice: 'invoices',
  notification: 'notifications',
  webhook: 'webhooks',
  profile: 'profiles',
}

/** First words that are commands by themselves, and stand for another one where only options follow. `unless`: an argument. */
export const bareAliases: Readonly<Record<string, { readonly unless: RegExp; readonly alias: string }>> = {
  // The cost of requests needs their ids; without one, people ask what the month costs.
  cost: { unless: /^req_/, alias: 'billing costs' },
}

/** Words after a group, such as `volumes delete`; the first one that the group has is meant. */
export const verbAliases: Readonly<Record<string, readonly string[]>> = {
  list: ['ls'],
  delete: ['rm'],
  remove: ['rm', 'revoke'],
  destroy: ['rm'],
  get: ['show'],
  describe: ['show'],
  add: ['create'],
  new: ['create', 'add'],
  create: ['add'],
  change: ['set'],
  edit: ['set'],
  update: ['set'],
  resize: ['grow'],
}

/** Flags, by the command that they belong to. */
export const flagAliases: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  rent: { '-e': '--env', '-p': '--port', '-v': '--mount', '--name': '--label', '--gpus': '--count' },
  set: { '--name': '--label' },
  'templates create': { '-e': '--env', '-p': '--port' },
  'templates set': { '-e': '--env', '-p': '--port' },
  deploy: { '-e': '--env', '--replicas': '--min' },
  'budgets create': { '--limit': '--monthly', '--amount': '--monthly' },
  'budgets set': { '--limit': '--monthly', '--amount': '--monthly' },
  logs: { '-n': '--tail' },
}

/** Says that something cannot be done, and what can be done instead. */
interface Instead {
  readonly problem: string
  readonly next: readonly string[]
}

const resize: Instead = {
  problem: 'The GPUs and the disk of a machine cannot be changed after it is rented.',
  next: [
    'To rent one like it with more GPUs: berth rent --like NAME --count 4',
    'To keep files for it: berth cp, or a volume: berth volumes create --help',
    'A volume can grow: berth volumes grow LABEL GB',
  ],
}

/** First words for which there is no command. */
export const absentCommands: Readonly<Record<string, Instead>> = { resize, upgrade: resize, scale: resize }

/** Flags for which a command has no option. */
export const absentFlags: Readonly<Record<string, Readonly<Record<string, Instead>>>> = {
  set: { '--gpu': resize, '--gpus': resize, '--count': resize, '--disk': resize },
}
