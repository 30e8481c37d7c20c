/** Adds a bare-metal host that the server reaches over SSH. Choosing a GPU type fills in the usual values. */
import type { FieldValues } from '../../form/field.ts'
import { FieldDialog } from '../../form/field-dialog.tsx'

type Values = Partial<FieldValues<'addHost'>>

/** Usual values of these GPUs. */
const gpuPresets: Readonly<Record<string, Values>> = {
  h100: preset('NVIDIA-H100-SXM5-80GB', '81559', 'sxm5', '1980', '989', 'SXM5'),
  h200: preset('NVIDIA-H200-SXM-141GB', '143771', 'sxm5', '1980', '989', 'SXM5'),
  b200: preset('NVIDIA-B200-SXM-180GB', '183359', 'sxm6', '1965', '2250', 'SXM6'),
}

function preset(model: string, ramMib: string, form: string, clock: string, tflops: string, bus: string): Values {
  return {
    gpuModel: model,
    gpuRamMib: ramMib,
    gpuFormFactor: form,
    'hardware.gpuClockMhz': clock,
    'hardware.gpuComputePower': tflops,
    'hardware.gpuInterface': bus,
  }
}

export function HostForm({ onClose }: { onClose: () => void }) {
  return (
    <FieldDialog
      operation="addHost"
      refreshes={['listHosts', 'listFleet']}
      title="Add bare metal"
      action="Add host"
      wide
      initial={{ networkType: 'ethernet', gpusTotal: '8', ...gpuPresets['h100'] }}
      fields={[
        { group: 'Machine', fields: ['id', 'clusterName', 'region', 'networkType'] },
        {
          group: 'Access',
          fields: [
            'hostname',
            'user',
            'publicIp',
            'privateIp',
            'sshPort',
            'hostKey',
            ['privateKey', { as: 'block', read: (text) => (text.endsWith('\n') ? text : `${text}\n`) }],
            'sudo',
            'scratch',
          ],
        },
        {
          group: 'GPUs',
          fields: [
            ['gpuType', { also: (type) => gpuPresets[type] ?? {} }],
            'gpusTotal',
            'gpuModel',
            'gpuRamMib',
            'gpuFormFactor',
            'hardware.gpuInterface',
            'hardware.gpuClockMhz',
            'hardware.gpuComputePower',
            'simulated',
          ],
        },
        {
          group: 'Other hardware',
          fields: [
            'hardware.cpuModel',
            'hardware.cpuCores',
            'hardware.virtualCores',
            'hardware.ramGb',
            'hardware.storageGb',
            'hasPersistentStorage',
          ],
        },
        {
          group: 'Redfish power control (optional)',
          fields: ['bmc.url', 'bmc.username', ['bmc.password', { as: 'password' }], 'bmc.fingerprint'],
        },
      ]}
      body={({ bmc, ...body }) => (bmc === undefined ? body : { ...body, bmc: { ...bmc, kind: 'redfish' } })}
      done={(host) => `Added ${host.id}. It is checked before it is sold.`}
      onClose={onClose}
    >
      <p className="text-sm text-muted">
        A machine that this server reaches over SSH. It is checked against these values before it is sold, and cleaned
        after each tenant.
      </p>
    </FieldDialog>
  )
}
