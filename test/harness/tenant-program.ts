/** Options of an order whose traces are easy to recognise. The last file is not the tenant's to write. */
export const tenantProgram = {
  env: { WORD: "it's" },
  files: [
    { path: '/home/tenant/it', content: 'x', mode: '0600' },
    { path: '/tmp/there', content: 'content', mode: '0644' },
    { path: '/etc/not-mine', content: '', mode: '0644' },
  ],
  onStart: 'echo "started with $WORD"; exit 4',
  userData: '#!/bin/sh\necho "user data with $WORD"\n',
}
