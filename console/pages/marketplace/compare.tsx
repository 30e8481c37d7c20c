/** Machines side by side. */
import type { ReactNode } from 'react'
import { number } from '../../../src/view/number.ts'
import { hourlyPrice } from '../../../src/view/money.ts'
import { Button } from '../../ui/button.tsx'
import { Dialog } from '../../ui/dialog.tsx'
import type { MachineRow } from './machine.ts'

export const MAX_COMPARED = 4

type Fact = readonly [name: string, of: (machine: MachineRow) => ReactNode]

const facts: readonly Fact[] = [
  ['Price per GPU-hour', ({ pricePerGpu }) => hourlyPrice(pricePerGpu)],
  ['Free GPUs', ({ gpusFree, gpusTotal }) => `${gpusFree} of ${gpusTotal}`],
  ['GPU memory', ({ vramGb }) => `${number(vramGb)} GB`],
  ['Reliability', ({ uptimePercent }) => (uptimePercent === null ? null : `${uptimePercent} %`)],
  ['CUDA', ({ cudaVersion }) => cudaVersion],
  ['GPU driver', ({ gpuDriver }) => gpuDriver],
  ['CPU', ({ cpuModel, cpuCores }) => `${cpuModel}, ${number(cpuCores)} cores`],
  ['Memory', ({ ramGb }) => `${number(ramGb)} GB`],
  ['Disk', ({ storageGb }) => `${number(storageGb)} GB`],
  ['Persistent storage', ({ hasPersistentStorage }) => (hasPersistentStorage ? 'Yes' : 'No')],
  ['Region', ({ region }) => region],
  ['Supplier', ({ supplierId }) => supplierId],
]

interface CompareDialogProps {
  readonly machines: readonly MachineRow[]
  readonly onRent: ((machine: MachineRow) => void) | undefined
  readonly onClose: () => void
}

export function CompareDialog({ machines, onRent, onClose }: CompareDialogProps) {
  return (
    <Dialog title="Compare machines" wide onClose={onClose}>
      <div className="overflow-x-auto" tabIndex={0} role="group" aria-label="Comparison">
        <table className="w-full border-collapse text-sm" aria-label="Comparison">
          <thead>
            <tr className="border-b border-line text-left">
              <td>
                <span className="sr-only">Machine</span>
              </td>
              {machines.map(({ id, gpu }) => (
                <th key={id} scope="col" className="min-w-36 px-3 py-2 align-top font-semibold">
                  {gpu}
                  <span className="block text-xs font-normal text-muted">{id}</span>
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {facts.map(([name, of]) => (
              <tr key={name} className="border-b border-line">
                <th scope="row" className="py-2 pr-3 text-left font-normal whitespace-nowrap text-muted">
                  {name}
                </th>
                {machines.map((machine) => (
                  <td key={machine.id} className="px-3 py-2">
                    {of(machine) ?? <span className="text-muted">Not known</span>}
                  </td>
                ))}
              </tr>
            ))}
            <tr>
              <td>
                <span className="sr-only">Machine</span>
              </td>
              {machines.map((machine) => (
                <td key={machine.id} className="px-3 pt-3">
                  <Button
                    look="primary"
                    aria-label={`Rent ${machine.id} now`}
                    disabledReason={
                      onRent === undefined
                        ? 'Your key cannot rent'
                        : machine.gpusFree === 0 && machine.gpusAfterWait === null
                          ? 'No free GPUs'
                          : undefined
                    }
                    onClick={() => onRent?.(machine)}
                  >
                    Rent
                  </Button>
                </td>
              ))}
            </tr>
          </tbody>
        </table>
      </div>
    </Dialog>
  )
}
