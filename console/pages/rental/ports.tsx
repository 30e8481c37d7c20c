/** Ports of a machine: their addresses, whether they answer, and "Open" for HTTP ports. */
import type { PortRecord } from '../../../src/contract/port.ts'
import { portAddress, portLabel, portState } from '../../../src/view/port.ts'
import { missingScope, useMay } from '../../api/me.ts'
import { useAction } from '../../api/query.ts'
import { Badge } from '../../ui/badge.tsx'
import { Button } from '../../ui/button.tsx'
import { useDialog } from '../../ui/dialog.tsx'
import { toast } from '../../ui/toast.tsx'
import { PortTokensDialog } from './port-tokens.tsx'

interface RentalPortsProps {
  /** The id of a rental, or the name of an instance. */
  readonly id: string
  readonly ports: readonly PortRecord[]
}

export function RentalPorts({ id, ports }: RentalPortsProps) {
  if (ports.length === 0) return null
  return (
    <div className="mt-4">
      <h3 className="text-sm font-semibold">Ports</h3>
      <ul aria-label="Ports" className="mt-1 flex flex-col divide-y divide-line">
        {ports.map((port) => (
          <li key={portLabel(port)} className="flex flex-wrap items-center gap-x-3 gap-y-2 py-2 text-sm">
            <span className="w-24 font-mono">{portLabel(port)}</span>
            <Badge tone={portState(port).tone}>{portState(port).label}</Badge>
            {port.protocol === 'http' && <span className="text-muted">{port.access}</span>}
            <span className="min-w-0 flex-1 font-mono break-all text-muted">{portAddress(port)}</span>
            {port.protocol === 'http' && <HttpPortButtons id={id} port={port} />}
          </li>
        ))}
      </ul>
    </div>
  )
}

function HttpPortButtons({ id, port }: { id: string; port: PortRecord }) {
  const mayWrite = useMay('compute:write')
  const dialog = useDialog()
  const open = useAction('openRentalPort')
  const why =
    port.url === null ? 'It has no address at the moment' : mayWrite ? undefined : missingScope('compute:write')
  const openTab = (): void => {
    // The window is opened at once, because browsers block windows that open after a wait.
    const tab = window.open('about:blank', '_blank')
    open.mutate(
      { params: { id, port: port.port }, body: {} },
      {
        onSuccess: ({ url }) => {
          if (tab === null) return toast('Your browser has blocked the new tab', 'bad')
          // The application must not reach back into the console.
          tab.opener = null
          tab.location.replace(url)
        },
        onError: (error) => {
          tab?.close()
          toast(error.message, 'bad')
        },
      },
    )
  }
  return (
    <span className="flex gap-2">
      {port.access === 'private' && (
        <Button
          aria-label={`Tokens of port ${port.port}`}
          onClick={() => dialog.open((close) => <PortTokensDialog id={id} port={port.port} onClose={close} />)}
        >
          Tokens
        </Button>
      )}
      <Button
        look="primary"
        aria-label={`Open port ${port.port}`}
        busy={open.isPending}
        disabledReason={why}
        onClick={openTab}
      >
        Open
      </Button>
      {dialog.shown}
    </span>
  )
}
