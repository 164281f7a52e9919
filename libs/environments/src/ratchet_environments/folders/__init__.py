"""Task folders in Harbor's form: what was asked, where, and a judge that the agent can't reach.

folder = read(path)                                      # reading
async with start(workspaces, folder) as workspace:       # judging
    ...                                                  # the agent works in workspace, at folder.workdir
    judged = await judge(workspaces, folder, await declared(workspace, folder))

`folder` is plain Python, `dockerfile` and `tree` as well; `attacks` are those that `checks.audit` tries on any folder;
`sets` keeps many as a split of a data set, and fetches them.
"""
