/** What the simulated Latitude.sh sells, and how it shows it. */

export interface LatitudePlan {
  readonly slug: string
  readonly gpus: number
  readonly interconnect: 'NVLink' | 'PCIe'
  usdPerHour: number
  /** By site: how many servers there can be. */
  readonly capacity: Map<string, number>
}

export interface SimKey {
  readonly name: string
  readonly public_key: string
  /** Of the team or of another project. */
  readonly isForeign: boolean
}

export const LOGIN_USER = 'ubuntu'
export const MAX_HOST_NAME_CHARS = 32
export const HOURS_PER_MONTH = 730n
/** By slug: whether it has a driver for the GPUs. */
export const operatingSystems: ReadonlyMap<string, boolean> = new Map([
  ['ubuntu22_ml_in_a_box', true],
  ['ubuntu24_ml_in_a_box', true],
  ['ubuntu_22_04_x64_lts', false],
  ['ubuntu_24_04_x64_lts', false],
])

/** All fields of a plan are optional. */
export const barePlan = {
  id: 'plan_bare',
  type: 'plans',
  attributes: { slug: 'c1-bare', name: 'c1.bare', features: [], specs: { gpu: {} }, regions: [] },
}

export function showPlan(plan: LatitudePlan, free: (site: string) => number) {
  const sites = [...plan.capacity.keys()]
  const inStock = sites.filter((site) => free(site) > 0)
  const price = { hour: plan.usdPerHour, month: plan.usdPerHour * 730, year: plan.usdPerHour * 8760 }
  return {
    id: `plan_${plan.slug}`,
    type: 'plans',
    attributes: {
      slug: plan.slug,
      name: plan.slug.replaceAll('-', '.'),
      features: ['ssh', 'raid', 'user_data'],
      specs: {
        cpu: { type: 'AMD EPYC 9354', clock: 3.25, cores: 32, count: 2 },
        memory: { total: plan.gpus * 192 },
        drives: [
          { count: 2, size: '480 GB', type: 'SSD' },
          { count: 4, size: '3.8 TB', type: 'NVME' },
        ],
        nics: [{ count: 2, type: '100 Gbps' }],
        gpu: { count: plan.gpus, type: 'NVIDIA H100', vram_per_gpu: 80, interconnect: plan.interconnect },
      },
      regions: [
        {
          name: 'United States',
          deploys_instantly: inStock,
          locations: { available: sites, in_stock: inStock },
          stock_level: inStock.length > 0 ? 'high' : 'unavailable',
          pricing: { USD: price, BRL: price },
        },
      ],
    },
  }
}

export function defaultPlans(): LatitudePlan[] {
  const capacity = (): Map<string, number> =>
    new Map([
      ['DAL', 8],
      ['SAO', 8],
    ])
  return [
    { slug: 'g3-large-x86', gpus: 8, interconnect: 'NVLink', usdPerHour: 16.64, capacity: capacity() },
    { slug: 'g3-small-x86', gpus: 1, interconnect: 'PCIe', usdPerHour: 2.08, capacity: capacity() },
  ]
}

export function showKey([id, { name, public_key }]: readonly [string, SimKey]) {
  return { id, type: 'ssh_keys', attributes: { name, public_key, fingerprint: id } }
}

export function showScript([id, attributes]: readonly [string, { description: string; content: string }]) {
  return { id, type: 'user_data', attributes }
}
