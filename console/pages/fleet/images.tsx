/** Base images of virtual machines. Hosts download each once and verify its checksum. */
import { localDate } from '../../../src/view/time.ts'
import { useState } from 'react'
import type { Reply } from '../../../src/client/client.ts'
import { useCall } from '../../api/query.ts'
import { ConfirmCall, FormDialog } from '../../form/dialog.tsx'
import { useCallForm } from '../../form/use-form.ts'
import { Answer } from '../../ui/answer.tsx'
import { Badge } from '../../ui/badge.tsx'
import { Button } from '../../ui/button.tsx'
import { Card } from '../../ui/card.tsx'
import { Empty } from '../../ui/empty.tsx'
import { CheckField, SelectField, TextField } from '../../ui/field.tsx'
import { Table, type Column } from '../../ui/table.tsx'
import { toast } from '../../ui/toast.tsx'

type Image = Reply<'listBaseImages'>['images'][number]

const arches = ['x64', 'arm64'] as const

export function FleetImages() {
  const images = useCall('listBaseImages')
  const [isAdding, setAdding] = useState(false)
  const [deleting, setDeleting] = useState<Image | undefined>()
  const add = (
    <Button look="primary" onClick={() => setAdding(true)}>
      Add image
    </Button>
  )
  return (
    <Card title="Base images" actions={add}>
      <Answer of={images}>
        {(reply) => (
          <Table
            label="Base images"
            columns={columnsOf(setDeleting)}
            rows={reply.images}
            rowKey={(image) => image.name}
            empty={
              <Empty title="No base images yet">
                Virtual machines boot a small image that each host builds. Add a cloud image, such as Debian or Ubuntu,
                to use that instead.
              </Empty>
            }
          />
        )}
      </Answer>
      {isAdding && <ImageForm onClose={() => setAdding(false)} />}
      {deleting !== undefined && <DeleteImage image={deleting} onClose={() => setDeleting(undefined)} />}
    </Card>
  )
}

function columnsOf(remove: (image: Image) => void): ReadonlyArray<Column<Image>> {
  return [
    {
      name: 'name',
      header: 'Name',
      cell: (image) => (
        <span className="flex flex-wrap items-center gap-2">
          <span className="font-medium">{image.name}</span>
          {image.isDefault && <Badge tone="info">default</Badge>}
        </span>
      ),
    },
    { name: 'arch', header: 'Architecture', cell: (image) => image.arch },
    { name: 'user', header: 'Login user', cell: (image) => image.loginUser },
    {
      name: 'source',
      header: 'Source',
      cell: (image) => (
        <span className="break-all" title={`sha256 ${image.sha256}`}>
          {image.source}
        </span>
      ),
    },
    { name: 'created', header: 'Added', wideOnly: true, cell: (image) => localDate(image.createdAt) },
    {
      name: 'delete',
      header: <span className="sr-only">Delete</span>,
      align: 'right',
      cell: (image) => (
        <Button look="quiet" aria-label={`Delete ${image.name}`} onClick={() => remove(image)}>
          Delete
        </Button>
      ),
    },
  ]
}

function DeleteImage({ image, onClose }: { image: Image; onClose: () => void }) {
  return (
    <ConfirmCall
      title={`Delete ${image.name}?`}
      action="Delete"
      operation="deleteBaseImage"
      input={{ params: { id: image.name } }}
      refreshes={['listBaseImages']}
      done={`Deleted ${image.name}.`}
      onClose={onClose}
    >
      Current machines keep running. New machines can no longer use it.
    </ConfirmCall>
  )
}

function ImageForm({ onClose }: { onClose: () => void }) {
  const form = useCallForm('addBaseImage', {
    refreshes: ['listBaseImages'],
    initial: { name: '', source: '', sha256: '', loginUser: '', arch: 'x64', isDefault: false },
    body: ({ sha256, arch, ...values }) => ({
      ...values,
      sha256: sha256.trim().toLowerCase(),
      arch: arch as Image['arch'],
    }),
    onDone: (image) => {
      toast(`Added ${image.name}.`)
      onClose()
    },
  })
  return (
    <FormDialog title="Add a base image" form={form} action="Add image" onClose={onClose}>
      <TextField label="Name" hint="The name in orders, such as debian-12." {...form.text('name')} />
      <TextField label="Source" hint="https://…, or file:/… on each host." {...form.text('source')} />
      <TextField label="SHA-256" hint="64 hexadecimal digits, as printed by sha256sum." {...form.text('sha256')} />
      <TextField
        label="Login user"
        hint="The user that cloud-init creates, such as debian."
        {...form.text('loginUser')}
      />
      <SelectField
        label="Architecture"
        choices={arches.map((value) => ({ value, label: value }))}
        {...form.text('arch')}
      />
      <CheckField
        label="Default image"
        hint="Used for orders without an image. Replaces the current default of this architecture."
        {...form.check('isDefault')}
      />
    </FormDialog>
  )
}
