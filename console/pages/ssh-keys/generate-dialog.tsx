/** Generates an SSH key in the browser, adds its public part, and offers the private part for download once. */
import { useEffect, useState } from 'react'
import { FieldDialog } from '../../form/field-dialog.tsx'
import { Button } from '../../ui/button.tsx'
import { CodeBlock } from '../../ui/copy.tsx'
import { Dialog, DialogButtons } from '../../ui/dialog.tsx'
import { Notice } from '../../ui/notice.tsx'
import { Skeleton } from '../../ui/skeleton.tsx'
import { generateKeyPair, type KeyPair } from './generate.ts'

const FILE = 'berth_ed25519'

export function GenerateDialog({ onClose }: { onClose: () => void }) {
  const [pair, setPair] = useState<KeyPair | 'not possible'>()
  const [added, setAdded] = useState<string>()
  useEffect(() => {
    void generateKeyPair('berth-console').then((generated) => setPair(generated ?? 'not possible'))
  }, [])
  if (pair === undefined) {
    return (
      <Dialog title="Generate SSH key" onClose={onClose}>
        <Skeleton rows={3} />
      </Dialog>
    )
  }
  if (pair === 'not possible') return <NotPossible onClose={onClose} />
  if (added !== undefined) return <Download name={added} pair={pair} onClose={onClose} />
  return <AddGenerated pair={pair} onDone={setAdded} onClose={onClose} />
}

function NotPossible({ onClose }: { onClose: () => void }) {
  return (
    <Dialog title="Generate SSH key" onClose={onClose}>
      <p className="mb-3 text-sm">
        This browser cannot generate Ed25519 keys here. That needs a recent browser and HTTPS or localhost. Generate one
        in a terminal, then add its public part:
      </p>
      <CodeBlock label="Command" code="ssh-keygen -t ed25519" />
    </Dialog>
  )
}

interface AddGeneratedProps {
  readonly pair: KeyPair
  readonly onDone: (name: string) => void
  readonly onClose: () => void
}

function AddGenerated({ pair, onDone, onClose }: AddGeneratedProps) {
  return (
    <FieldDialog
      title="Generate SSH key"
      action="Generate and add"
      operation="addSshKey"
      refreshes={['listSshKeys']}
      fields={['name']}
      initial={{ name: 'Generated in the console' }}
      body={(body) => ({ ...body, publicKey: pair.publicKey })}
      onDone={({ name }) => onDone(name)}
      onClose={onClose}
    >
      <p className="text-sm text-muted">
        The key pair is made in this browser. Only its public part is sent; you download the private part in the next
        step.
      </p>
    </FieldDialog>
  )
}

function Download({ name, pair, onClose }: { name: string; pair: KeyPair; onClose: () => void }) {
  const [isSaved, setSaved] = useState(false)
  const save = (): void => {
    const url = URL.createObjectURL(new Blob([pair.privateKey], { type: 'application/octet-stream' }))
    const link = document.createElement('a')
    link.href = url
    link.download = FILE
    link.click()
    URL.revokeObjectURL(url)
    setSaved(true)
  }
  return (
    <Dialog title={`Download the private key of ${name}`} onClose={onClose} needsButton>
      <div className="flex flex-col gap-3">
        <Notice tone="warn">It is shown only now and is stored nowhere else.</Notice>
        <div>
          <Button look="primary" onClick={save}>
            Download {FILE}
          </Button>
        </div>
        <p className="text-sm text-muted">Then keep others from reading it, and use it to log in:</p>
        <CodeBlock
          label="Commands"
          code={`mv ~/Downloads/${FILE} ~/.ssh/ && chmod 600 ~/.ssh/${FILE}\nssh -i ~/.ssh/${FILE} USER@HOST`}
        />
      </div>
      <DialogButtons>
        <Button onClick={onClose} disabledReason={isSaved ? undefined : 'Download the private key first'}>
          Done
        </Button>
      </DialogButtons>
    </Dialog>
  )
}
