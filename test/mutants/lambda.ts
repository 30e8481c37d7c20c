import type { Mutant } from './mutant.ts'

const file = 'lambda/cloud.ts'

export const lambdaMutants: readonly Mutant[] = [
  {
    id: 'L1',
    mistake: 'prices a hundred times too high',
    file,
    find: 'costPerHour: fromCents(type.price_cents_per_hour),',
    replace: 'costPerHour: fromCents(type.price_cents_per_hour * 100),',
  },
  {
    id: 'L2',
    mistake: 'no SSH key in a launch',
    file,
    find: 'ssh_key_names: [tag],',
    replace: 'ssh_key_names: [],',
  },
  {
    id: 'L3',
    mistake: 'a machine that the vendor took back is shown as stopping',
    file,
    find: "{ ...base, state: 'failed', failure: 'machine_lost', message: 'Lambda took the machine back.' }",
    replace: "{ ...base, state: 'stopping' }",
  },
  {
    id: 'L4',
    mistake: 'no rate limits: the first burst is answered with 429',
    file,
    find: 'pace: { everyMs: 1_000, routes: { launch: 12_000 } }',
    replace: 'pace: { everyMs: 0 }',
  },
  {
    id: 'L5',
    mistake: 'customers pay for a machine that the vendor calls unhealthy',
    file,
    find: "? { ...base, state: 'unreachable', message: 'Lambda reports the machine as unhealthy.' }",
    replace: "? { ...base, state: 'running', data: dataOf(instance) }",
  },
]
