import type { Mutant } from './mutant.ts'

export const voltageParkMutants: readonly Mutant[] = [
  {
    id: 'VP1',
    mistake: 'the GPUs of one node for an order of several',
    file: 'voltage-park/cloud.ts',
    find: 'gpu_count: offer.gpus * order.units',
    replace: 'gpu_count: offer.gpus',
  },
  {
    id: 'VP2',
    mistake: 'the start-up script is garbage: its encoding is not named',
    file: 'voltage-park/cloud.ts',
    find: "content, encoding: 'b64', owner",
    replace: 'content, owner',
  },
  {
    id: 'VP3',
    mistake: 'the price of one GPU for a whole node',
    file: 'voltage-park/offers.ts',
    find: 'nanoUsdOf(perGpu * BigInt(gpu_count))',
    replace: 'nanoUsdOf(perGpu)',
  },
  {
    id: 'VP4',
    mistake: 'a machine that was taken back costs its full price',
    file: 'voltage-park/machines.ts',
    find: "const isAssociated = status !== 'StoppedDisassociated' && status !== 'Outbid'",
    replace: 'const isAssociated = true',
  },
  {
    id: 'VP5',
    mistake: 'all people of the organization can log in to the machine of a customer',
    file: 'voltage-park/cloud.ts',
    find: "organization_ssh_keys: { mode: 'none' }",
    replace: "organization_ssh_keys: { mode: 'all' }",
  },
  {
    id: 'VP6',
    mistake: 'nobody can log in: the login user of virtual machines is another one',
    file: 'voltage-park/machines.ts',
    find: "export const VM_LOGIN_USER = 'user'",
    replace: "export const VM_LOGIN_USER = 'ubuntu'",
  },
]
