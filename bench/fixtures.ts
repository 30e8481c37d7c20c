/** Large numbers of machines and accounts. */
import pg from 'pg'
import { call, type BenchServer } from './harness.ts'

const models = [
  'NVIDIA H100 80GB HBM3',
  'NVIDIA H200',
  'NVIDIA A100-SXM4-80GB',
  'NVIDIA L40S',
  'NVIDIA GeForce RTX 4090',
]

/** Inserts marketplace machines with 8 GPUs of a nonexistent engine directly into the table. */
export async function fillMachines(url: string, count: number): Promise<void> {
  const client = new pg.Client({ connectionString: url })
  client.on('error', () => {})
  await client.connect()
  await client.query(
    `insert into machine (id, driver, cluster_name, region, offering, status, gpu_model, gpu_ram_mib, network_type,
       gpus_total, gpus_claimed, price_nano_per_gpu_hour, has_persistent_storage, hardware, seen_at, created_at)
     select 'bench-' || n, 'bench', 'bench', 'region-' || n % 40, 'marketplace', 'node_ready', ($2::text[])[1 + n % 5],
       81920, 'ethernet', 8, 0, 1000000000 + (n % 300) * 10000000::bigint, n % 3 = 0,
       '{"cpuModel":"AMD EPYC 9354","cpuCores":32,"virtualCores":64,"ramGb":1024,"storageGb":15360,"gpuClockMhz":1980,"gpuComputePower":990,"gpuInterface":"SXM5"}',
       now(), now()
     from generate_series(0, $1 - 1) n`,
    [count, models],
  )
  await client.query('vacuum analyze machine')
  await client.end()
}

/** Creates accounts with money, quota and an SSH key; returns their API keys. */
export async function openAccounts(server: BenchServer, operatorKey: string, count: number): Promise<string[]> {
  const keys: string[] = []
  for (let n = 0; n < count; n += 1) {
    const made = await call(server.url, operatorKey, 'POST', '/v2/operator/accounts', {
      name: `Bench ${n}`,
      ownerEmail: `bench-${n}@example.test`,
    })
    const { account, key } = made.body as { account: { id: string }; key: string }
    keys.push(key)
    await call(server.url, operatorKey, 'POST', `/v2/operator/accounts/${account.id}/credit`, {
      amountUsd: '10000000',
      reason: 'bench',
    })
    await call(server.url, operatorKey, 'PATCH', `/v2/operator/accounts/${account.id}`, {
      quota: { gpus: 100_000 },
      reason: 'bench',
    })
    await call(server.url, key, 'POST', '/v2/ssh-keys', {
      name: 'bench',
      publicKey: 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f',
    })
  }
  return keys
}
