/** GPU-exact marketplace claims under contention: 1,000 machines × 8 GPUs, creates over HTTP by many accounts at once. */
import { randomInt } from 'node:crypto'
import pg from 'pg'
import { call, cpuMs, inParallel, median, readKey, startServer, type Bench, type BenchServer } from './harness.ts'
import { fillMachines, openAccounts } from './fixtures.ts'

const MACHINES = 1_000
const ACCOUNTS = 32
const WIDTH = 64
const ROUNDS = 3
const CLAIMS_PER_ROUND = 1_500

/** Including refusals. */
let requests = 0

export const claims: Bench = {
  name: 'claims',
  about: `GPU-exact claims, ${MACHINES} machines × 8 GPUs, ${WIDTH} at a time`,
  run: async () => {
    // No engine: this measures the claim with its money and records, not a simulated boot.
    const server = await startServer({ BERTH_DRIVERS: '', BERTH_DATABASE_CONNECTIONS: '10' })
    try {
      await fillMachines(server.databaseUrl, MACHINES)
      const keys = await openAccounts(server, readKey(server, 'operator'), ACCOUNTS)
      const rates: number[] = []
      const cpus: number[] = []
      const databaseCpus: number[] = []
      const loadCpus: number[] = []
      let won = 0
      for (let round = 0; round < ROUNDS; round += 1) {
        const cpuBefore = cpuMs(server.pid)
        const databaseCpuBefore = cpuMs(server.postgresPid)
        const loadCpuBefore = process.cpuUsage()
        const tookMs = await inParallel(range(CLAIMS_PER_ROUND), WIDTH, async (n) => {
          if (await claim(server, keys[n % keys.length] ?? '')) won += 1
        })
        rates.push((CLAIMS_PER_ROUND * 1_000) / tookMs)
        cpus.push(((cpuMs(server.pid) - cpuBefore) * 1_000) / CLAIMS_PER_ROUND)
        databaseCpus.push(((cpuMs(server.postgresPid) - databaseCpuBefore) * 1_000) / CLAIMS_PER_ROUND)
        const { user, system } = process.cpuUsage(loadCpuBefore)
        loadCpus.push((user + system) / CLAIMS_PER_ROUND)
      }
      const limit = await claimsBySqlAlone(server.databaseUrl)
      return [
        {
          name: 'claims a second',
          value: median(rates),
          unit: '/s',
          against: 'to reach: ≥ 600/s; kube-scheduler 180/s, Kueue 43/s (their own figures)',
        },
        { name: 'CPU of the server a claim', value: median(cpus), unit: 'µs' },
        { name: 'CPU of PostgreSQL a claim', value: median(databaseCpus), unit: 'µs', against: 'to reach: ≤ 1,500 µs' },
        { name: 'CPU of the load a claim', value: median(loadCpus), unit: 'µs', against: 'on the same cores' },
        { name: 'requests a claim, refusals included', value: requests / (ROUNDS * CLAIMS_PER_ROUND), unit: '' },
        {
          name: 'the claim function alone',
          value: limit,
          unit: '/s',
          against: 'the limit: one statement a claim, no HTTP, no money',
        },
        {
          name: 'GPUs sold twice',
          value: await countDoubled(server.databaseUrl, won),
          unit: '',
          against: 'to reach: 0',
        },
      ]
    } finally {
      await server.stop()
    }
  },
}

function range(length: number): number[] {
  return Array.from({ length }, (_, n) => n)
}

/** Every tenth order is for one of the same fifty machines, so that claims compete; a refused order goes elsewhere. */
async function claim(server: BenchServer, key: string): Promise<boolean> {
  for (;;) {
    requests += 1
    const node = randomInt(10) === 0 ? randomInt(MACHINES / 20) : randomInt(MACHINES)
    const reply = await call(server.url, key, 'POST', '/v1/marketplace/instances/create', {
      cluster_name: 'bench',
      node_name: `bench-${node}`,
      gpu_count: 1,
    })
    if (reply.status === 200) return true
    if (reply.status !== 400) throw new Error(`unexpected answer ${reply.status}: ${JSON.stringify(reply.body)}`)
  }
}

async function claimsBySqlAlone(url: string): Promise<number> {
  const pool = new pg.Pool({ connectionString: url, max: 24 })
  pool.on('error', () => {})
  const { rows } = await pool.query<{ id: number }>('select id from rental limit 1')
  const tookMs = await inParallel(range(2_000), 24, async () => {
    await pool.query('select claim_gpus($1, 1, $2, now())', [`bench-${randomInt(MACHINES)}`, rows[0]?.id])
  })
  await pool.query('select release_gpus($1)', [rows[0]?.id])
  await pool.end()
  return (2_000 * 1_000) / tookMs
}

/** Each successful create must hold exactly one GPU of its own. The rental of the SQL part is not counted. */
async function countDoubled(url: string, won: number): Promise<number> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  const { rows } = await client.query<{ rentals: number; claims: number; oversold: number }>(`
    select (select count(*)::integer from rental) as rentals,
           (select count(*)::integer from gpu_claim) as claims,
           (select count(*)::integer from machine m
            where gpus_claimed <> (select count(*) from gpu_claim c where c.machine_id = m.id)) as oversold`)
  await client.end()
  const { rentals = 0, claims: held = 0, oversold = 0 } = rows[0] ?? {}
  return Math.abs(rentals - won) + Math.abs(rentals - 1 - held) + oversold
}
