"""REST. Routes call the service layer and nothing else; the web pages will stand beside them.

``application`` puts the parts together, ``access`` decides who may come in, ``limits`` how much they may bring, ``answers``
turns errors into documents and status codes, ``listening`` holds the address and the thread.
"""
