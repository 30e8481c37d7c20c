import { expect, test } from 'vitest'
import { parseClusters } from './config.ts'

const cluster = { name: 'lab', region: 'eu-1', prices: { 'NVIDIA-H200': '2.50' } }

test('reads YAML and JSON, with paths relative to the file', () => {
  const yaml =
    'clusters:\n  - name: lab\n    region: eu-1\n    kubeconfig: lab.yaml\n    prices: {NVIDIA-H200: "2.50"}\n'
  const read = parseClusters(yaml, '/etc/berth')
  expect(read).toMatchObject({
    kind: 'read',
    clusters: [
      {
        ...cluster,
        kubeconfig: '/etc/berth/lab.yaml',
        gpuResource: 'nvidia.com/gpu',
        podSecurity: 'baseline',
        images: { pullPolicy: 'Always' },
        quota: { pods: 100, gpus: 256 },
      },
    ],
  })
  expect(parseClusters(JSON.stringify({ clusters: [{ ...cluster, kubeconfig: 'lab.yaml' }] }), '/etc/berth')).toEqual(
    read,
  )
})

test('names the cluster and the field of every error at once', () => {
  const read = parseClusters(
    JSON.stringify({
      clusters: [
        { ...cluster, prices: {} },
        { ...cluster, name: 'Lab' },
        { ...cluster, prices: { h200: 'cheap' }, podSecurity: 'none' },
        { region: 'eu-1', prices: { h200: '1' }, password: 'hunter2' },
      ],
    }),
    '/',
  )
  const faults = read.kind === 'faulty' ? read.faults : []
  expect(faults.map((fault) => fault.split(':').slice(0, 2).join(':'))).toEqual([
    'cluster lab: prices',
    'cluster Lab: name',
    'cluster lab: prices.h200',
    'cluster lab: podSecurity',
    'cluster number 4: name',
    'cluster number 4: the whole',
  ])
  expect(faults.join()).not.toContain('hunter2')
})

test.each(['', 'clusters: []', '{"clusters":', 'clusters: 5'])('rejects %j', (text) => {
  expect(parseClusters(text, '/').kind).toBe('faulty')
})

test('rejects two clusters of one name', () => {
  const read = parseClusters(JSON.stringify({ clusters: [cluster, cluster] }), '/')
  expect(read).toEqual({ kind: 'faulty', faults: ['cluster lab: duplicate name'] })
})
