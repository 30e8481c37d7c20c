/** `rental-options`, which needs no key, with 100,000 machines: one request at a time and eight at a time. */
import pg from 'pg'
import { request } from 'undici'
import { cpuMs, inParallel, startServer, type Bench, type BenchServer, type Figure } from './harness.ts'

const MACHINES = 100_000
const REGIONS = 20
const CALLS = 150
const PATH = '/v2/alpha/on-demand/rental-options'

export const rentalOptions: Bench = {
  name: 'rental-options',
  about: `rental-options over ${MACHINES} machines, without a key`,
  run: async () => {
    const server = await startServer({ BERTH_DRIVERS: '' })
    try {
      await fill(server.databaseUrl)
      await ask(server)
      return [...(await measure(server, 1)), ...(await measure(server, 8))]
    } finally {
      await server.stop()
    }
  },
}

async function measure(server: BenchServer, width: number): Promise<Figure[]> {
  const times: number[] = []
  const before = cpuMs(server.pid) + cpuMs(server.postgresPid)
  await inParallel([...Array(CALLS).keys()], width, async () => {
    const startedAt = performance.now()
    await ask(server)
    times.push(performance.now() - startedAt)
  })
  const cpu = cpuMs(server.pid) + cpuMs(server.postgresPid) - before
  times.sort((a, b) => a - b)
  const name = `${width} at a time`
  return [
    { name: `p50, ${name}`, value: times[Math.floor(CALLS * 0.5)] ?? Number.NaN, unit: 'ms' },
    {
      name: `p95, ${name}`,
      value: times[Math.floor(CALLS * 0.95)] ?? Number.NaN,
      unit: 'ms',
      against: 'to reach: ≤ 20 ms',
    },
    { name: `CPU a call, ${name}`, value: cpu / CALLS, unit: 'ms', against: 'server and PostgreSQL' },
  ]
}

async function ask(server: BenchServer): Promise<void> {
  const response = await request(`${server.url}${PATH}`)
  if (response.statusCode !== 200) throw new Error(`unexpected answer ${response.statusCode}`)
  await response.body.arrayBuffer()
}

/** Machines of both kinds in all shapes, a third with GPUs in use, and prices for each shape. */
async function fill(url: string): Promise<void> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  await client.query(
    `insert into machine (id, driver, cluster_name, region, offering, status, gpu_type, gpu_form_factor, gpu_model,
       gpu_ram_mib, network_type, gpus_total, gpus_sick, hardware, seen_at, created_at)
     select 'bench-' || n, 'bench', 'bench', 'region-' || n % $2, (array['virtual-machine', 'bare-metal'])[1 + n / $2 % 2],
       'node_ready', (array['h100', 'h200', 'b200'])[1 + n / $2 / 2 % 3], 'sxm5', 'NVIDIA H100 80GB HBM3', 81920,
       (array['ethernet', 'infiniband'])[1 + n / $2 / 6 % 2], 8, case when n % 3 = 0 then array[n % 8] else '{}' end,
       '{"cpuModel":"AMD EPYC 9354","cpuCores":32,"virtualCores":64,"ramGb":1024,"storageGb":15360,"gpuClockMhz":1980,"gpuComputePower":990,"gpuInterface":"SXM5"}',
       now(), now()
     from generate_series(0, $1::integer - 1) n`,
    [MACHINES, REGIONS],
  )
  await client.query(
    `insert into gpu_price
     select kind, 'region-' || r, gpu, network, gpus, 2000000000, true, now()
     from unnest(array['virtual-machine', 'bare-metal']) kind, generate_series(0, $1::integer - 1) r,
       unnest(array['h100', 'h200', 'b200']) gpu, unnest(array['ethernet', 'infiniband']) network,
       unnest(case when kind = 'bare-metal' then array[8] else array[1, 2, 4, 8] end) gpus`,
    [REGIONS],
  )
  await client.query('vacuum analyze machine')
  await client.end()
}
