import type { Mutant } from './mutant.ts'

export const denvrMutants: readonly Mutant[] = [
  {
    id: 'D1',
    mistake: 'a machine of another VPC is not found, and runs on',
    file: 'denvr/cloud.ts',
    find: "Namespace: listed?.namespace ?? this.#credentials.vpc ?? ''",
    replace: "Namespace: this.#credentials.vpc ?? ''",
  },
  {
    id: 'D2',
    mistake: 'storage is billed after the machine',
    file: 'denvr/cloud.ts',
    find: 'persistStorage: false',
    replace: 'persistStorage: true',
  },
  {
    id: 'D3',
    mistake: 'the second key of a customer cannot log in',
    file: 'denvr/cloud.ts',
    find: 'ssh_keys: plainKeys(order.spec),',
    replace: 'ssh_keys: plainKeys(order.spec).slice(0, 1),',
  },
  {
    id: 'D4',
    mistake: 'customers pay for a machine that is stopped',
    file: 'denvr/machine.ts',
    find: "if (status === 'ONLINE') return",
    replace: "if (status === 'ONLINE' || status === 'OFFLINE') return",
  },
  {
    id: 'D5',
    mistake: 'the price of the list, and not that of the pool',
    file: 'denvr/machine.ts',
    find: 'const compute = prices.compute ?? configuration?.price ?? zeroUsd',
    replace: 'const compute = configuration?.price ?? zeroUsd',
  },
  {
    id: 'D6',
    mistake: '"not found" counts as gone while the list shows the machine',
    file: 'denvr/cloud.ts',
    find: 'if (listed !== undefined || !isMissing(error, name)) throw error',
    replace: 'if (!isMissing(error, name)) throw error',
  },
  {
    id: 'D7',
    mistake: 'the root disk is missing from the cost of a machine',
    file: 'denvr/machine.ts',
    find: 'ONLINE: nanoUsdOf(compute + prices.disk)',
    replace: 'ONLINE: compute',
  },
  {
    id: 'D8',
    mistake: 'nobody can log in: the login user is another one',
    file: 'denvr/machine.ts',
    find: "export const LOGIN_USER = 'ubuntu'",
    replace: "export const LOGIN_USER = 'root'",
  },
  {
    id: 'D9',
    mistake: 'an image without a GPU driver',
    file: 'denvr/cloud.ts',
    find: '/^ubuntu/i.test(name)',
    replace: '/^rocky/i.test(name)',
  },
]
