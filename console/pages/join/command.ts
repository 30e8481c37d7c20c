/**
 * The one command that makes a machine a host. `agent run` with a token joins and goes on running. Every word of it is
 * checked here to be a plain one, since it is pasted into a shell.
 */
import { hostName } from '../../../src/contract/agent.ts'
import { virtualMachineRegion } from '../../../src/contract/region.ts'
import { priceUsdText } from '../../../src/contract/shared.ts'
import { faultOf } from '../../form/read.ts'

export interface JoinWish {
  readonly offering: 'marketplace' | 'virtual-machine'
  /** '' : those that the machine has. Else a word of `--simulate-gpus`. */
  readonly simulated: string
  readonly gpuCount: string
  /** '' : the default for simulated GPUs. */
  readonly price: string
  readonly region: string
  /** '' : three random words. */
  readonly name: string
  /** How many machines may join with the token, and for how long. */
  readonly uses: string
  readonly expiresInHours: string
}

export const firstWish: JoinWish = {
  offering: 'marketplace',
  simulated: '',
  gpuCount: '2',
  price: '1.20',
  region: 'local',
  name: '',
  uses: '1',
  expiresInHours: '24',
}

/** Some of the models that the agent can declare; it prints all of them when it is given a wrong word. */
export const simulatedModels = [
  { value: 'h100', label: 'H100' },
  { value: 'h200', label: 'H200' },
  { value: 'b200', label: 'B200' },
  { value: 'a100', label: 'A100' },
  { value: 'l40s', label: 'L40S' },
  { value: 'rtx4090', label: 'RTX 4090' },
] as const

/** Virtual machines are ordered by these types only. */
const orderedModels: ReadonlySet<string> = new Set(['h100', 'h200', 'b200'])
const MAX_GPUS = 64
const regionWord = /^[a-z0-9][a-z0-9-]{0,62}$/

type JoinFaults = { readonly [field in keyof JoinWish]?: string | undefined }

export function faultsOf(wish: JoinWish): JoinFaults {
  const isSimulated = wish.simulated !== ''
  const gpus = /^\d{1,2}$/.test(wish.gpuCount) ? Number.parseInt(wish.gpuCount, 10) : 0
  const needsPrice = wish.offering === 'marketplace' && (!isSimulated || wish.price !== '')
  return {
    simulated:
      wish.offering === 'virtual-machine' && isSimulated && !orderedModels.has(wish.simulated)
        ? 'Virtual machines are sold with H100, H200 or B200.'
        : undefined,
    gpuCount: isSimulated && (gpus < 1 || gpus > MAX_GPUS) ? `Write a number from 1 to ${MAX_GPUS}.` : undefined,
    price: needsPrice ? faultOf(priceUsdText, wish.price) : undefined,
    region: faultOfRegion(wish),
    name:
      wish.name === '' || hostName.safeParse(wish.name).success
        ? undefined
        : 'Lower-case letters, digits and hyphens, 63 at most.',
    uses:
      wish.name !== '' && Number(wish.uses) > 1
        ? 'Several machines cannot have one name; leave the name empty.'
        : undefined,
  }
}

function faultOfRegion({ offering, region }: JoinWish): string | undefined {
  if (offering === 'virtual-machine') {
    return virtualMachineRegion.safeParse(region).success ? undefined : 'Choose one of the regions.'
  }
  return regionWord.test(region) ? undefined : 'One word of lower-case letters, digits and hyphens.'
}

/** Only of a wish without faults. */
export function joinCommand(wish: JoinWish, server: string, token: string): string {
  const isMarketplace = wish.offering === 'marketplace'
  return [
    'npx berth agent run',
    `--server ${server}`,
    `--token ${token}`,
    ...(wish.name === '' ? [] : [`--name ${wish.name}`]),
    ...(isMarketplace ? [] : ['--offer virtual-machine']),
    ...(wish.region === firstWish.region ? [] : [`--region ${wish.region}`]),
    ...(isMarketplace && wish.price !== '' ? [`--price ${wish.price}`] : []),
    ...(wish.simulated === '' ? [] : [`--simulate-gpus ${wish.simulated}:${Number.parseInt(wish.gpuCount, 10)}`]),
  ].join(' \\\n  ')
}
