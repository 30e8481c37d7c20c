/** What customers see of the use of their rentals on a Kubernetes cluster. */
import { expect, test } from 'vitest'
import { anyObject } from '../../src/engines/kubernetes/objects.ts'
import { rentInstance, terminate, untilGone, untilStatus } from '../harness/instance.ts'
import { succeed } from '../harness/journey.ts'
import { startKubeMetrics } from '../harness/kube-metrics.ts'
import { waitFor } from '../harness/wait.ts'
import type { KubeJourney } from './volume-journey.ts'

const signal = new AbortController().signal
const GPU_NAMESPACE = 'gpu-operator'

export function metricJourney(get: () => KubeJourney): void {
  test('a rental shows its CPU and memory, and its GPUs where an exporter runs', async () => {
    const { server, ada, cluster, node, image, addressOf } = get()
    const { admin } = cluster
    const stop = await startKubeMetrics(cluster)
    try {
      const spin = 'i=0; while true; do i=$((i+1)); done'
      const name = await rentInstance(ada, node, image, { command: ['sh', '-c', spin] })
      const instance = await untilStatus(ada, name, 'online')
      const use = () => {
        server.app.database.onCommit(new Set(['measure']))
        return succeed(ada.call, 'GET', `/v2/alpha/on-demand/rentals/${name}/metrics`)
      }
      await waitFor('its CPU', async () => ((await use()).machines[0]?.cpuPercent ?? 0) > 0)
      const [machine] = (await use()).machines
      expect(machine).toMatchObject({ machineId: node.id, diskUsedMib: null, memoryUsedMib: expect.any(Number) })
      expect(machine.memoryUsedMib).toBeGreaterThan(0)
      expect(machine.memoryUsedMib).toBeLessThan(machine.memoryTotalMib)
      const { namespace, name: pod } = await addressOf(instance)
      await startExporter(get(), `gpu="2",UUID="GPU-x",container="main",namespace="${namespace}",pod="${pod}"`)
      await waitFor('its GPU', async () => (await use()).gpus.length > 0)
      expect((await use()).gpus).toMatchObject([
        { gpuIndex: 0, utilizationPercent: 87, memoryUsedMib: 1_234, temperatureCelsius: 61, powerWatts: null },
      ])
      const history = await succeed(
        ada.call,
        'GET',
        `/v2/alpha/on-demand/rentals/${name}/metrics?from=${instance.start}`,
      )
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
      const changed = await ada.call('PATCH', `/v2/alpha/on-demand/instances/${name}`, { idle })
      expect(changed).toMatchObject({
        status: 400,
        body: { reason: 'idle_not_measured', issues: [{ path: ['idle'] }] },
      })
      await terminate(ada, name)
      await untilGone(ada, name)
    } finally {
      await stop()
      await admin.delete(`/api/v1/namespaces/${GPU_NAMESPACE}/pods/exporter`, { signal })
    }
  })
}

/** The text of a DCGM exporter, served over HTTP by a pod on the node. */
async function startExporter({ cluster, image }: KubeJourney, labels: string): Promise<void> {
  const { admin } = cluster
  const values = { DCGM_FI_DEV_GPU_UTIL: 87, DCGM_FI_DEV_FB_USED: 1_234, DCGM_FI_DEV_GPU_TEMP: 61 }
  const text = Object.entries(values).map(([name, value]) => `${name}{${labels}} ${value}`)
  const script = `mkdir /tmp/w; cd /tmp/w; printf '%s\\n' "$METRICS" >metrics; exec httpd -f -p 9400 -h /tmp/w`
  await admin.create('/api/v1/namespaces', { metadata: { name: GPU_NAMESPACE } }, anyObject, { signal })
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
