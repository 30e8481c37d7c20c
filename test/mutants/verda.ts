import type { Mutant } from './mutant.ts'

export const verdaMutants: readonly Mutant[] = [
  {
    id: 'V1',
    mistake: 'a contract of months, paid in advance',
    file: 'verda/cloud.ts',
    find: "contract: 'PAY_AS_YOU_GO'",
    replace: "contract: 'LONG_TERM'",
  },
  {
    id: 'V2',
    mistake: 'disks go to the trash, where they cost money for days',
    file: 'verda/cloud.ts',
    find: 'volume_ids: [disk], delete_permanently: true',
    replace: 'volume_ids: [disk], delete_permanently: false',
  },
  {
    id: 'V3',
    mistake: 'customers pay for a machine that is off',
    file: 'verda/machine.ts',
    find: "if (status === 'running') return",
    replace: "if (status === 'running' || status === 'offline') return",
  },
  {
    id: 'V4',
    mistake: 'a price that changes under a fixed selling price',
    file: 'verda/cloud.ts',
    find: "pricing: 'FIXED_PRICE'",
    replace: "pricing: 'DYNAMIC_PRICE'",
  },
  {
    id: 'V5',
    mistake: 'billed by the minute from the start on, not by ten minutes from the order on',
    file: 'verda/cloud.ts',
    find: "billing: { from: 'create', incrementMs: 600_000, minimumMs: 600_000 }",
    replace: "billing: { from: 'running', incrementMs: 60_000, minimumMs: 0 }",
  },
]
