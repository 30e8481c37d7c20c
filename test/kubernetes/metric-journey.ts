/** What customers see of the use of their rentals on a Kubernetes cluster. */
import { expect, test } from 'vitest'
import { podPath } from '../../src/drivers/kubernetes/names.ts'
import { anyObject } from '../../src/drivers/kubernetes/objects.ts'
import { rentalStatusOf, rentInstance, terminate, untilGone, untilStatus } from '../harness/instance.ts'
import { succeed } from '../harness/journey.ts'
import { startKubeMetrics } from '../lab/kube-metrics.ts'
import { waitFor } from '../harness/wait.ts'
import type { KubeJourney } from './volume-journey.ts'

const signal = new AbortController().signal
const GPU_NAMESPACE = 'gpu-operator'

export function metricJourney(get: () => KubeJourney): void {
  test('a rental shows its use, and its GPUs are sold again only when an exporter shows that their memory is free', async () => {
    const { server, ada, cluster, node, image, addressOf } = get()
    const { admin } = cluster
    const stop = await startKubeMetrics(cluster)
    try {
      const spin = 'i=0; while true; do i=$((i+1)); done'
      const name = await rentInstance(ada, node, image, { command: ['sh', '-c', spin] })
      const instance = await untilStatus(ada, name, 'online')
      const use = () => {
        server.app.database.onCommit(new Set(['measure']))
        return succeed(ada.call, 'GET', `/v2/rentals/${name}/metrics`)
      }
      await waitFor('its CPU', async () => ((await use()).machines[0]?.cpuPercent ?? 0) > 0)
      const [machine] = (await use()).machines
      expect(machine).toMatchObject({ machineId: node.id, diskUsedMib: null, memoryUsedMib: expect.any(Number) })
      expect(machine.memoryUsedMib).toBeGreaterThan(0)
      expect(machine.memoryUsedMib).toBeLessThan(machine.memoryTotalMib)
      const { namespace, name: pod } = await addressOf(instance)
      await admin.create('/api/v1/namespaces', { metadata: { name: GPU_NAMESPACE } }, anyObject, { signal })
      const labels = `gpu="2",UUID="GPU-x",container="main",namespace="${namespace}",pod="${pod}"`
      // A process that has outlived its pod holds another GPU.
      const leftover = 'DCGM_FI_DEV_FB_USED{gpu="3",UUID="GPU-y",container="",namespace="",pod=""} 40000'
      const values = { DCGM_FI_DEV_GPU_UTIL: 87, DCGM_FI_DEV_FB_USED: 1_234, DCGM_FI_DEV_GPU_TEMP: 61 }
      const used = Object.entries(values).map(([metric, value]) => `${metric}{${labels}} ${value}`)
      await startExporter(get(), [...used, leftover])
      await waitFor('its GPU', async () => (await use()).gpus.length > 0)
      expect((await use()).gpus).toMatchObject([
        { gpuIndex: 0, utilizationPercent: 87, memoryUsedMib: 1_234, temperatureCelsius: 61, powerWatts: null },
      ])
      const history = await succeed(ada.call, 'GET', `/v2/rentals/${name}/metrics?from=${instance.start}`)
      const metrics = history.history.series.map((one: { metric: string }) => one.metric)
      expect(metrics).toEqual(expect.arrayContaining(['cpuPercent', 'memoryUsedMib', 'gpuUtilizationPercent']))
      const { checks } = await succeed(server.operator, 'POST', '/v2/operator/clusters/lab/check', {})
      const results = checks.map((one: { check: string; result: string }) => [one.check, one.result])
      expect(results).toEqual(
        expect.arrayContaining([
          ['pod_metrics', 'available'],
          ['gpu_metrics', 'available'],
        ]),
      )
      // Who is connected is not measured, so a rule could never act.
      const idle = { afterMinutes: 30, gpuUtilBelowPercent: 5, action: 'terminate', graceSeconds: 300 }
      await expect(rentInstance(ada, node, image, { idle })).rejects.toThrow('"param":"idle"')
      const changed = await ada.call('PATCH', `/v2/rentals/${name}`, { idle })
      expect(changed).toMatchObject({
        status: 400,
        body: { reason: 'idle_not_measured', issues: [{ path: ['idle'] }] },
      })
      const unsold = async () => {
        server.app.database.onCommit(new Set(['inventory']))
        const { clusters } = await succeed(server.operator, 'GET', '/v2/operator/clusters')
        const { machines } = await succeed(server.operator, 'GET', '/v2/operator/machines?limit=10')
        return [machines[0].gpusSick.join(), clusters[0].nodes[0].unsoldReason]
      }
      const why = '40000 MiB of GPU 3 are in use, and no pod has it'
      await waitFor('its other GPUs to be off sale', async () => (await unsold()).join(': ') === `1,2,3: ${why}`)
      await terminate(ada, name)
      await waitFor('its pod to be gone', async () => {
        const found = await admin.find(podPath({ namespace, name: pod }), anyObject, { signal })
        return found === undefined
      })
      await server.app.drivers.get('kubernetes')?.list('berth-', signal)
      expect(await rentalStatusOf(ada, name)).toBe('Terminating')
      await stopExporter(get())
      await startExporter(get(), ['DCGM_FI_DEV_FB_USED{gpu="2"} 4', 'DCGM_FI_DEV_FB_USED{gpu="3"} 4'])
      await untilGone(ada, name)
      await waitFor('all GPUs to be on sale', async () => (await unsold()).join() === ',')
    } finally {
      await stop()
      await stopExporter(get())
    }
  })
}

/** The text of a DCGM exporter, served over HTTP by a pod on the node. */
async function startExporter({ cluster, image }: KubeJourney, text: readonly string[]): Promise<void> {
  const { admin } = cluster
  const script = `mkdir /tmp/w; cd /tmp/w; printf '%s\\n' "$METRICS" >metrics; exec httpd -f -p 9400 -h /tmp/w`
  await waitFor('its account', () =>
    admin.find(`/api/v1/namespaces/${GPU_NAMESPACE}/serviceaccounts/default`, anyObject, { signal }),
  )
  const pod = {
    metadata: { name: 'exporter', labels: { app: 'nvidia-dcgm-exporter' } },
    spec: {
      terminationGracePeriodSeconds: 1,
      containers: [
        {
          name: 'main',
          image: `${image.name}:${image.tag}`,
          command: ['sh', '-c', script],
          env: [{ name: 'METRICS', value: text.join('\n') }],
        },
      ],
    },
  }
  await admin.create(`/api/v1/namespaces/${GPU_NAMESPACE}/pods`, pod, anyObject, { signal })
}

async function stopExporter({ cluster: { admin } }: KubeJourney): Promise<void> {
  const at = { namespace: GPU_NAMESPACE, name: 'exporter' }
  await waitFor('the exporter to be gone', async () => !(await admin.delete(podPath(at), { signal })))
}
